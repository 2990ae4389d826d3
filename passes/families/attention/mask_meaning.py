"""What masks of attention mean: keys that queries see by their places, keys that sequences have, and what grows with distance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from torch_mlir import ir

from .mask_parts import HEAD, KEY, QUERY, Part, Values, depends_on, seen_through, tensor_of, whole

_HIDES = -1e4  # a number from which on, added to scores, a key has no weight beside others
_RANGE = {"bf16": 3.3961775e38, "f16": 65520.0, "f32": 3.40282356e38, "f64": math.inf}  # what is not nearer to 0 becomes infinite
_MONOTONE = {"arith.cmpi": range(2, 10), "arith.cmpf": (2, 3, 4, 5)}  # <, <=, > and >=
_ROUNDING = {"bf16": 2**-8, "f16": 2**-11, "f32": 2**-22, "f64": 2**-50}


@dataclass(frozen=True)
class Keys:
    """Keys that are there for all queries of a sequence, or of a head of it.

    part      i1; which of them: those where it is `wanted`
    exact     they lie side by side, whatever the values
    """

    part: Part
    wanted: bool
    exact: bool


@dataclass(frozen=True)
class Meaning:
    """causal  query i sees keys to i + offset
    window  query i sees keys from i + offset - window + 1; 0: from the first
    span    keys that all queries see, from and to; None: all
    keys    that are there at run time
    slopes  for each head, what is added to a score for each key that it is further on
    moved   all scores of a row get something besides, which its weights do not show, but the logarithms of sums do
    rest    the mask itself is still to be read
    hides   all that it does is to hide, and wholly: it is as good as one of bools
    """

    causal: bool = False
    offset: int = 0
    window: int = 0
    span: tuple[int, int] | None = None
    keys: Keys | None = None
    slopes: tuple[float, ...] | None = None
    moved: bool = False
    rest: bool = False
    hides: bool = False

    @property
    def what(self) -> str:
        """For people: ": causal, window 8, keys"; "" where nothing is known."""
        said = [
            f"causal{f' from {self.offset:+d}' if self.offset else ''}" if self.causal else "",
            f"window {self.window}" if self.window else "",
            f"keys {self.span[0]} to {self.span[1]}" if self.span else "",
            "" if self.keys is None else f"{'lengths' if self.keys.exact else 'keys'}{' of heads' if self.by_head else ''}",
            "slopes" if self.slopes is not None else "",
            "and more" if self.rest else "",
        ]
        known = [words for words in said if words]
        return "" if known in ([], ["and more"]) else f": {', '.join(known)}"

    @property
    def by_head(self) -> bool:
        """Whether heads of a sequence may have different keys."""
        return self.keys is not None and self.keys.part.axes[HEAD] is not None

    @property
    def reads(self) -> bool:
        """Whether something is read for each key: the mask, or which keys are there."""
        return self.rest or (self.keys is not None and not self.keys.exact)


def meaning(mask: ir.Value, scores: Sequence[int], causal: bool, values: Values) -> Meaning:
    """Of a mask of scores (batch, heads, queries, keys), with the causal flag of the call. values: those that are known already."""
    found = _Reader(scores[HEAD], scores[QUERY], scores[KEY], values)
    if causal:
        found.high = np.minimum(found.high, np.arange(scores[QUERY]) + 1)
    part, dtype = whole(mask), str(ir.RankedTensorType(mask.type).element_type)
    if dtype == "i1":
        found.hides(part, True, False)
    else:
        found.adds(part, (dtype,))
    return found.result(causal)


@dataclass
class _Reader:
    """What was read so far.

    low, high  of each query: from which key on it sees them, and the end
    soft       a finite number hides something by its place
    soft_keys  one hides keys that are not there at run time
    moved      see Meaning
    unread     something is not understood
    adds_more  of that, what is added to scores
    """

    heads: int
    queries: int
    count: int
    values: Values
    keys: Keys | None = None
    slopes: np.ndarray | None = None
    soft: bool = False
    soft_keys: bool = False
    moved: bool = False
    unread: bool = False
    adds_more: bool = False
    low: np.ndarray = field(init=False)
    high: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.low, self.high = np.zeros(self.queries, np.int64), np.full(self.queries, self.count)

    def hides(self, part: Part, wanted: bool, soft: bool) -> None:
        """A key is seen where the part is `wanted`. soft: else a finite number is added."""
        at, known = seen_through(part), self.values.of(part)
        op = at.op
        if known is not None:
            self.soft |= soft
            self._placed(known if wanted else ~known)
        elif QUERY not in depends_on(part):
            self.soft_keys |= soft
            tensor = tensor_of(part)
            self.unread |= self.keys is not None or tensor is None
            self.keys = None if tensor is None else Keys(tensor, wanted, _is_interval(at, wanted, self.values))
        elif op is not None and op.name == ("arith.andi" if wanted else "arith.ori"):
            for i in range(2):
                self.hides(at.argument(i), wanted, soft)
        elif op is not None and _negated(at, self.values) is not None:
            self.hides(at.argument(_negated(at, self.values) or 0), not wanted, soft)
        else:
            self.soft |= soft
            self.unread = True

    def adds(self, part: Part, types: tuple[str, ...]) -> None:
        """The part is added to the scores. types: that it is rounded to on the way."""
        at = seen_through(part)
        op = at.op
        if op is not None and op.name == "arith.addf":
            self.adds(at.argument(0), types)
            self.adds(at.argument(1), types)
        elif op is not None and op.name in ("arith.truncf", "arith.extf"):
            self.adds(at.argument(0), (str(op.operands[0].type), *types))
        elif op is None or op.name != "arith.select" or not self._chosen(at, types):
            known = self.values.of(part)
            if known is None or not self._added(known, types):
                self.unread = self.adds_more = True

    def _chosen(self, at: Part, types: tuple[str, ...]) -> bool:
        """Whether one of two is a number that hides."""
        for i, wanted in ((2, True), (1, False)):
            fill = self.values.of(at.argument(i))
            if fill is not None and fill.size == 1 and float(fill.reshape(())) <= _HIDES:
                self.hides(at.argument(0), wanted, _is_finite(float(fill.reshape(())), types))
                self.adds(at.argument(3 - i), types)
                return True
        return False

    def _added(self, known: np.ndarray, types: tuple[str, ...]) -> bool:
        """Whether this is understood."""
        hidden = known <= _HIDES
        if known.shape[KEY] == 1 and np.all(~hidden & np.isfinite(known)):
            self.moved |= bool(np.any(known))
            return True  # of all scores of a row alike
        slopes = None if np.all(hidden | (known == 0)) else _slopes(known, ~hidden, types[0])
        if slopes is None and not np.all(hidden | (known == 0)):
            return False
        if hidden.any():
            self.soft |= _is_finite(float(known.max(where=hidden, initial=-math.inf)), types)
            self._placed(~hidden)
        if slopes is not None:
            self.unread |= self.slopes is not None
            self.slopes = slopes
            self.moved |= _is_moved(known, ~hidden, slopes, self.queries, types[0])
        return True

    def _placed(self, seen: np.ndarray) -> None:
        if any(seen.shape[d] > 1 and not np.all(seen == seen.take([0], d)) for d in (0, HEAD)):
            self.unread = True
            return
        rows = seen[0, 0]
        number = rows.sum(1) * (self.count // rows.shape[1])
        first = rows.argmax(1)
        last = np.where(rows.shape[1] == 1, self.count, rows.shape[1] - rows[:, ::-1].argmax(1))
        last = np.where(number == 0, first, last)
        if np.any(last - first != number):
            self.unread = True
            return
        self.low, self.high = np.maximum(self.low, first), np.minimum(self.high, last)

    def result(self, causal: bool) -> Meaning:
        hides = not (self.adds_more or self.soft or self.soft_keys or self.moved or self.slopes is not None)
        plain = Meaning(causal, rest=True, hides=hides)
        shape = _shaped(self.low, self.high, self.count)
        hidden = bool(np.any(self.high <= self.low))
        if shape is None or (self.soft and (hidden or self.keys is not None or self.unread)):
            return plain
        if self.unread:  # what is hidden may as well be skipped, while all is read
            return replace(shape, rest=True, hides=hides)
        if self.soft_keys:  # a sequence without keys has the mean of all
            return plain
        slopes = None if self.slopes is None else tuple(np.broadcast_to(self.slopes, (self.heads,)).tolist())
        return replace(shape, keys=self.keys, slopes=slopes, moved=self.moved, hides=hides)


def _shaped(low: np.ndarray, high: np.ndarray, count: int) -> Meaning | None:
    """Which keys queries see, from `low` to `high`, in words that kernels know; None where they have none."""
    high = np.maximum(high, low)
    if np.all(low == low[0]) and np.all(high == high[0]):
        return Meaning(span=None if (low[0], high[0]) == (0, count) else (int(low[0]), int(high[0])))
    at = np.arange(len(low))
    ends = np.flatnonzero((high < count) & (high > low))
    starts = np.flatnonzero((low > 0) & (high > low))
    causal, offset = bool(ends.size), int(high[ends[0]] - 1 - ends[0]) if ends.size else 0
    window = int(starts[0] + offset + 1 - low[starts[0]]) if starts.size else 0
    if starts.size and window <= 0:
        return None
    end = np.clip(at + offset + 1, 0, count) if causal else np.full(len(at), count)
    begin = np.clip(at + offset + 1 - window, 0, count) if window else np.zeros_like(at)
    empty = high == low
    same = np.where(empty, end <= begin, (low == begin) & (high == end))
    return Meaning(causal, offset, window) if np.all(same) else None


def _is_interval(part: Part, wanted: bool, values: Values) -> bool:
    """Whether the keys where the part is `wanted` lie side by side in each sequence."""
    at = seen_through(part)
    op = at.op
    known = values.of(part)
    if known is not None:
        rows = (known if wanted else ~known).astype(np.int8)
        return bool(np.all((np.diff(rows, axis=KEY, prepend=0) > 0).sum(KEY) <= 1))
    if op is None or at.is_tensor:
        return False
    inner = _negated(at, values)
    if inner is not None:
        return _is_interval(at.argument(inner), not wanted, values)
    if op.name == ("arith.andi" if wanted else "arith.ori"):
        return all(_is_interval(at.argument(i), wanted, values) for i in range(2))
    if op.attributes["predicate"].value not in _MONOTONE[op.name] if op.name in _MONOTONE else True:
        return False
    for i in range(2):
        places = values.of(at.argument(i))
        if places is not None and KEY not in depends_on(at.argument(1 - i)):
            steps = np.diff(places, axis=KEY)
            return bool(np.all(steps >= 0) or np.all(steps <= 0))
    return False


def _negated(at: Part, values: Values) -> int | None:
    """The number of the operand that this is the opposite of, both i1."""
    op = at.op
    if op is None or op.name not in ("arith.xori", "arith.cmpi") or str(op.operands[0].type) != "i1":
        return None
    for i in range(2):
        known = values.of(at.argument(1 - i))
        if known is not None and known.size == 1:
            flips = bool(known.reshape(())) if op.name == "arith.xori" else not bool(known.reshape(()))
            return i if flips and (op.name == "arith.xori" or op.attributes["predicate"].value == 0) else None
    return None


def _is_finite(fill: float, types: Sequence[str]) -> bool:
    return all(abs(fill) < _RANGE.get(t, 0.0) for t in types)


def _is_moved(known: np.ndarray, seen: np.ndarray, slopes: np.ndarray, queries: int, dtype: str) -> bool:
    """Whether the first number that a row sees is not its slope times the distance, up to one rounding each."""
    first = seen.argmax(KEY, keepdims=True)
    start = np.take_along_axis(known, first, KEY).astype(np.float64)
    off = np.abs(start - slopes[:, None, None] * (first - np.arange(queries)[:, None]))
    return bool(np.any((off > 2 * _ROUNDING.get(dtype, 0.0) * np.abs(start)) & np.take_along_axis(seen, first, KEY)))


def _slopes(known: np.ndarray, seen: np.ndarray, dtype: str) -> np.ndarray | None:
    """For each head, what a key adds for each place that it is further on, of keys that are seen; None where that is not all, up to
    one rounding."""
    if not np.all(np.isfinite(known[seen])) or (known.shape[0] > 1 and not np.all(known == known[:1])):
        return None
    rows, there = np.where(seen, known, 0.0)[0].astype(np.float64), seen[0]  # head, query, key
    first, last = there.argmax(2), rows.shape[2] - 1 - there[:, :, ::-1].argmax(2)
    heads = np.arange(len(rows))
    widest = (last - first).argmax(1)
    one, other = first[heads, widest], last[heads, widest]
    found = (rows[heads, widest, other] - rows[heads, widest, one]) / np.maximum(other - one, 1)
    start = np.take_along_axis(rows, first[:, :, None], 2)
    off = np.abs(rows - start - found[:, None, None] * (np.arange(rows.shape[2]) - first[:, :, None]))
    bound = 2 * _ROUNDING.get(dtype, 0.0) * np.maximum(np.abs(rows), np.abs(start))
    return found if np.all(off[there] <= bound[there]) else None
