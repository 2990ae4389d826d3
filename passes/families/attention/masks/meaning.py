"""Recognizes attention masks whose values are known at compile time: causal, a window, a range of keys, a bias linear in the
distance.

This needs no IR: `terms` finds the terms of a mask in the ops that compute it, and passes the values of those that depend on no
argument; the front end passes the whole mask where a model's mask follows from shapes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ....simplify.scalars import ScalarRef

BATCH, HEAD, QUERY, KEY = range(4)
HIDES = -1e4
"""With a bias of at most this, a key counts as hidden: it has no weight next to others, in any float type."""
_RANGE = {"bf16": 3.3961775e38, "f16": 65520.0, "f32": 3.40282356e38, "f64": math.inf}  # values from here on round to infinity
_ROUNDING = {"bf16": 2**-8, "f16": 2**-11, "f32": 2**-22, "f64": 2**-50}  # relative error that passes for rounding


@dataclass(frozen=True)
class Keys:
    """Keys that all queries of a sequence, or of a head of it, see: a padding mask known at run time.

    part      i1; a key is visible where it equals `wanted`
    exact     the visible keys are contiguous, whatever the values
    """

    part: ScalarRef
    wanted: bool
    exact: bool


@dataclass(frozen=True)
class MaskMeaning:
    """The meaning of a mask together with the causal flag, in terms of the kernels' options.

    causal       query i sees keys up to i + offset
    window       query i sees keys from i + offset - window + 1; 0: from the first
    span         range of keys that all queries see, [from, to); None: all
    keys         keys that are visible at run time; None: all
    slopes       for each head, the bias per key of distance (ALiBi)
    shifts_rows  each row of scores also gets a constant, which cancels in the weights but not in the log-sum-exp
    needs_mask   the kernel still has to read the mask itself
    only_hides   the mask only hides keys, and completely: a bool mask would do
    """

    causal: bool = False
    offset: int = 0
    window: int = 0
    span: tuple[int, int] | None = None
    keys: Keys | None = None
    slopes: tuple[float, ...] | None = None
    shifts_rows: bool = False
    needs_mask: bool = False
    only_hides: bool = False

    @property
    def what(self) -> str:
        """A description for messages, such as ": causal, window 8, keys"; "" if nothing was recognized."""
        phrases = [
            f"causal{f' from {self.offset:+d}' if self.offset else ''}" if self.causal else "",
            f"window {self.window}" if self.window else "",
            f"keys {self.span[0]} to {self.span[1]}" if self.span else "",
            "" if self.keys is None else f"{'lengths' if self.keys.exact else 'keys'}{' of heads' if self.by_head else ''}",
            "slopes" if self.slopes is not None else "",
            "and more" if self.needs_mask else "",
        ]
        known = [words for words in phrases if words]
        return "" if known in ([], ["and more"]) else f": {', '.join(known)}"

    @property
    def by_head(self) -> bool:
        """Whether the heads of a sequence may see different keys."""
        return self.keys is not None and HEAD in self.keys.part.index

    @property
    def reads(self) -> bool:
        """Whether a kernel reads something for each key: the mask, or which keys are visible."""
        return self.needs_mask or (self.keys is not None and not self.keys.exact)


def of_values(mask: np.ndarray, dtype: str) -> MaskMeaning:
    """Returns the meaning of a mask whose values are known, (batch or 1, heads or 1, queries, keys): bools, or numbers of the type
    `dtype` that are added to the scores."""
    terms = MaskTerms(*mask.shape[1:])
    if dtype == "i1":
        terms.show(mask)
    elif not terms.add(mask, (dtype,)):
        terms.unread = terms.adds_more = True
    return terms.result()


@dataclass
class MaskTerms:
    """Accumulates what the terms of a mask mean.

    low, high                  the range of keys that each query sees, [low, high)
    keys, slopes, shifts_rows  see MaskMeaning
    soft                       some scores are hidden by position with a finite bias
    soft_keys                  some keys are hidden at run time with a finite bias
    unread                     some term was not understood
    adds_more                  a term that was not understood is added to the scores
    """

    heads: int
    queries: int
    count: int
    keys: Keys | None = None
    slopes: np.ndarray | None = None
    soft: bool = False
    soft_keys: bool = False
    shifts_rows: bool = False
    unread: bool = False
    adds_more: bool = False
    low: np.ndarray = field(init=False)
    high: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.low, self.high = np.zeros(self.queries, np.int64), np.full(self.queries, self.count)

    def show_causal(self) -> None:
        """Narrows each query's range to the keys up to its own position."""
        self.high = np.minimum(self.high, np.arange(self.queries) + 1)

    def show(self, seen: np.ndarray, wanted: bool = True) -> None:
        """Narrows each query's range of keys to those where `seen` equals `wanted`; unread where this is not a range, or differs by
        sequence or head."""
        seen = seen if wanted else ~seen
        if any(seen.shape[d] > 1 and not np.all(seen == seen.take([0], d)) for d in (BATCH, HEAD)):
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

    def add(self, known: np.ndarray, types: Sequence[str]) -> bool:
        """Reads a term of known values that is added to the scores; False if it is not a constant per row, does not hide, and is
        not linear in distance. types: the types that it is rounded to on the way."""
        hidden = known <= HIDES
        if known.shape[KEY] == 1 and np.all(~hidden & np.isfinite(known)):
            self.shifts_rows |= bool(np.any(known))
            return True  # a constant for each row
        slopes = None if np.all(hidden | (known == 0)) else _slopes(known, ~hidden, types[0])
        if slopes is None and not np.all(hidden | (known == 0)):
            return False
        if hidden.any():
            self.soft |= is_finite(float(known.max(where=hidden, initial=-math.inf)), types)
            self.show(~hidden)
        if slopes is not None:
            self.unread |= self.slopes is not None
            self.slopes = slopes
            self.shifts_rows |= _is_moved(known, ~hidden, slopes, self.queries, types[0])
        return True

    def result(self, causal: bool = False) -> MaskMeaning:
        """Returns the meaning of all terms that were read. causal: the flag of the call."""
        hides = not (self.adds_more or self.soft or self.soft_keys or self.shifts_rows or self.slopes is not None)
        plain = MaskMeaning(causal, needs_mask=True, only_hides=hides)
        shape, hidden = self.ranges()
        if shape is None or (self.soft and (hidden or self.keys is not None or self.unread)):
            return plain
        if self.unread:  # the mask is read, but what is known to be hidden can be skipped
            return replace(shape, needs_mask=True, only_hides=hides)
        if self.soft_keys:  # with a finite bias, a sequence without visible keys gets the mean of all values
            return plain
        slopes = None if self.slopes is None else tuple(np.broadcast_to(self.slopes, (self.heads,)).tolist())
        return replace(shape, keys=self.keys, slopes=slopes, shifts_rows=self.shifts_rows, only_hides=hides)

    def ranges(self) -> tuple[MaskMeaning | None, bool]:
        """Returns the meaning of the ranges of keys, None if kernels do not support it; and whether a range may be empty."""
        return _shaped(self.low, self.high, self.count), bool(np.any(self.high <= self.low))


def is_finite(fill: float, types: Sequence[str]) -> bool:
    """Returns whether a number stays finite, rounded to each of these types."""
    return all(abs(fill) < _RANGE.get(t, 0.0) for t in types)


def _shaped(low: np.ndarray, high: np.ndarray, count: int) -> MaskMeaning | None:
    """Expresses the ranges [low, high) as causal, window or span, which kernels support; None if none of these fits."""
    high = np.maximum(high, low)
    if np.all(low == low[0]) and np.all(high == high[0]):
        return MaskMeaning(span=None if (low[0], high[0]) == (0, count) else (int(low[0]), int(high[0])))
    query = np.arange(len(low))
    ends = np.flatnonzero((high < count) & (high > low))
    starts = np.flatnonzero((low > 0) & (high > low))
    causal, offset = bool(ends.size), int(high[ends[0]] - 1 - ends[0]) if ends.size else 0
    window = int(starts[0] + offset + 1 - low[starts[0]]) if starts.size else 0
    if starts.size and window <= 0:
        return None
    end = np.clip(query + offset + 1, 0, count) if causal else np.full(len(query), count)
    begin = np.clip(query + offset + 1 - window, 0, count) if window else np.zeros_like(query)
    empty = high == low
    same = np.where(empty, end <= begin, (low == begin) & (high == end))
    return MaskMeaning(causal, offset, window) if np.all(same) else None


def _is_moved(known: np.ndarray, seen: np.ndarray, slopes: np.ndarray, queries: int, dtype: str) -> bool:
    """Returns whether the first visible bias of some row differs from slope times distance by more than rounding explains."""
    first = seen.argmax(KEY, keepdims=True)
    start = np.take_along_axis(known, first, KEY).astype(np.float64)
    off = np.abs(start - slopes[:, None, None] * (first - np.arange(queries)[:, None]))
    return bool(np.any((off > 2 * _ROUNDING.get(dtype, 0.0) * np.abs(start)) & np.take_along_axis(seen, first, KEY)))


def _slopes(known: np.ndarray, seen: np.ndarray, dtype: str) -> np.ndarray | None:
    """Returns the bias per key of distance for each head, fitted to the visible keys; None if the bias is not linear, except
    for rounding."""
    if not np.all(np.isfinite(known[seen])) or (known.shape[0] > 1 and not np.all(known == known[:1])):
        return None
    rows, there = np.where(seen, known, 0.0)[0].astype(np.float64), seen[0]  # head, query, key
    first, last = there.argmax(2), rows.shape[2] - 1 - there[:, :, ::-1].argmax(2)
    heads = np.arange(len(rows))
    widest = (last - first).argmax(1)
    one, other = first[heads, widest], last[heads, widest]
    slopes = (rows[heads, widest, other] - rows[heads, widest, one]) / np.maximum(other - one, 1)
    start = np.take_along_axis(rows, first[:, :, None], 2)
    off = np.abs(rows - start - slopes[:, None, None] * (np.arange(rows.shape[2]) - first[:, :, None]))
    bound = 2 * _ROUNDING.get(dtype, 0.0) * np.maximum(np.abs(rows), np.abs(start))
    return slopes if np.all(off[there] <= bound[there]) else None
