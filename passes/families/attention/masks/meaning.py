"""Analyzes attention masks: recognizes causal masks, windows, padding masks, and linear biases (ALiBi)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from torch_mlir import ir

from .parts import HEAD, KEY, QUERY, MaskPart, Values, depends_on, seen_through, tensor_of, whole

_HIDES = -1e4  # with a bias of at most this, a key counts as hidden
_RANGE = {"bf16": 3.3961775e38, "f16": 65520.0, "f32": 3.40282356e38, "f64": math.inf}  # values from here on round to infinity
_MONOTONE = {"arith.cmpi": range(2, 10), "arith.cmpf": (2, 3, 4, 5)}  # predicates <, <=, > and >=
_ROUNDING = {"bf16": 2**-8, "f16": 2**-11, "f32": 2**-22, "f64": 2**-50}  # relative error that passes for rounding


@dataclass(frozen=True)
class Keys:
    """Keys that all queries of a sequence, or of a head of it, see: a padding mask known at run time.

    part      i1; a key is visible where it equals `wanted`
    exact     the visible keys are contiguous, whatever the values
    """

    part: MaskPart
    wanted: bool
    exact: bool


@dataclass(frozen=True)
class Meaning:
    """What a mask and the causal flag mean.

    causal  query i sees keys up to i + offset
    window  query i sees keys from i + offset - window + 1; 0: from the first
    span    range of keys that all queries see, [from, to); None: all
    keys    keys that are visible at run time; None: all
    slopes  for each head, the bias per key of distance (ALiBi)
    moved   each row of scores also gets a constant, which cancels in the weights but not in the log-sum-exp
    rest    the kernel still has to read the mask itself
    hides   the mask only hides keys, and completely: a bool mask would do
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
        """A description for messages, such as ": causal, window 8, keys"; "" where nothing was recognized."""
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
        """Whether the heads of a sequence may see different keys."""
        return self.keys is not None and self.keys.part.axes[HEAD] is not None

    @property
    def reads(self) -> bool:
        """Whether a kernel reads something for each key: the mask, or which keys are visible."""
        return self.rest or (self.keys is not None and not self.keys.exact)


def meaning(mask: ir.Value, scores: Sequence[int], causal: bool, values: Values) -> Meaning:
    """Returns what a mask and the causal flag mean. scores: batch, heads, queries, keys; values: a cache of evaluated values."""
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
    """Accumulates what the terms of a mask mean.

    low, high  the range of keys that each query sees, [low, high)
    soft       some scores are hidden by position with a finite bias
    soft_keys  some keys are hidden at run time with a finite bias
    moved      see Meaning
    unread     some term was not understood
    adds_more  a term that was not understood is added to the scores
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

    def hides(self, part: MaskPart, wanted: bool, soft: bool) -> None:
        """Reads a bool term: keys are visible where it equals `wanted`. soft: the other keys only get a finite bias."""
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

    def adds(self, part: MaskPart, types: tuple[str, ...]) -> None:
        """Reads a term that is added to the scores. types: the types that it is rounded to on the way."""
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

    def _chosen(self, at: MaskPart, types: tuple[str, ...]) -> bool:
        """Reads a select between a constant that hides and another term; returns False for other selects."""
        for i, wanted in ((2, True), (1, False)):
            fill = self.values.of(at.argument(i))
            if fill is not None and fill.size == 1 and float(fill.reshape(())) <= _HIDES:
                self.hides(at.argument(0), wanted, _is_finite(float(fill.reshape(())), types))
                self.adds(at.argument(3 - i), types)
                return True
        return False

    def _added(self, known: np.ndarray, types: tuple[str, ...]) -> bool:
        """Reads a term of known values; False where it is no constant per row, does not hide, and is not linear in distance."""
        hidden = known <= _HIDES
        if known.shape[KEY] == 1 and np.all(~hidden & np.isfinite(known)):
            self.moved |= bool(np.any(known))
            return True  # a constant for each row
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
        """Narrows each query's range of keys to `seen`; unread where this is no range, or differs by sequence or head."""
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
        """Returns the meaning of all terms that were read. causal: the flag of the call."""
        hides = not (self.adds_more or self.soft or self.soft_keys or self.moved or self.slopes is not None)
        plain = Meaning(causal, rest=True, hides=hides)
        shape = _shaped(self.low, self.high, self.count)
        hidden = bool(np.any(self.high <= self.low))
        if shape is None or (self.soft and (hidden or self.keys is not None or self.unread)):
            return plain
        if self.unread:  # the mask is read, but what is known to be hidden can be skipped
            return replace(shape, rest=True, hides=hides)
        if self.soft_keys:  # with a finite bias, a sequence without visible keys gets the mean of all values
            return plain
        slopes = None if self.slopes is None else tuple(np.broadcast_to(self.slopes, (self.heads,)).tolist())
        return replace(shape, keys=self.keys, slopes=slopes, moved=self.moved, hides=hides)


def _shaped(low: np.ndarray, high: np.ndarray, count: int) -> Meaning | None:
    """Expresses the ranges [low, high) as causal, window or span, which kernels support; None where none of these fits."""
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


def _is_interval(part: MaskPart, wanted: bool, values: Values) -> bool:
    """Returns whether the keys where the part equals `wanted` are contiguous in each sequence, whatever the values."""
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


def _negated(at: MaskPart, values: Values) -> int | None:
    """Returns the index of the i1 operand that this i1 negates; None for other ops."""
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
    """Returns whether the first visible bias of some row differs from slope times distance by more than rounding explains."""
    first = seen.argmax(KEY, keepdims=True)
    start = np.take_along_axis(known, first, KEY).astype(np.float64)
    off = np.abs(start - slopes[:, None, None] * (first - np.arange(queries)[:, None]))
    return bool(np.any((off > 2 * _ROUNDING.get(dtype, 0.0) * np.abs(start)) & np.take_along_axis(seen, first, KEY)))


def _slopes(known: np.ndarray, seen: np.ndarray, dtype: str) -> np.ndarray | None:
    """Returns the bias per key of distance for each head, fitted to the visible keys; None where the bias is not linear, except
    for rounding."""
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
