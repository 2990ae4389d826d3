"""Recognizes masks that compare positions when the numbers of queries or keys are symbolic. (With known numbers, `meaning`
evaluates the mask instead.)

A mask is described by linear functions of the positions of query q and key k. The query sees the key if none of them is negative:
`q - k >= 0` is a causal mask, `k - q + 127 >= 0` a sliding window of 128.
"""

from dataclasses import dataclass, field

import numpy as np

from lamina.core.sizes import SizeLike, at_most, is_symbolic

from .meaning import MaskMeaning, MaskTerms

PREDICATES = ("eq", "ne", "lt", "le", "gt", "ge", *["unsigned"] * 4)
"""Comparisons by the number of arith.cmpi's predicate. Unsigned ones are not read, as differences of positions may be negative."""


@dataclass(frozen=True)
class Linear:
    """The linear function `query * q + key * k + constant` of the positions q of a query and k of a key."""

    query: int
    key: int
    constant: SizeLike

    def __add__(self, other: "Linear") -> "Linear":
        return Linear(self.query + other.query, self.key + other.key, self.constant + other.constant)

    def times(self, factor: int) -> "Linear":
        """Returns the product with a number."""
        return Linear(self.query * factor, self.key * factor, self.constant * factor)

    @property
    def is_natural(self) -> bool:
        """Whether it is provably never negative."""
        return self.query >= 0 and self.key >= 0 and at_most(0, self.constant)

    def compared(self, predicate: str, other: "Linear") -> "Region | None":
        """Returns the region where a comparison of integers holds; None unless it is a single inequality."""
        ahead = self + other.times(-1)
        bounds = {"ge": ahead, "gt": ahead + Linear(0, 0, -1), "le": ahead.times(-1), "lt": ahead.times(-1) + Linear(0, 0, -1)}
        return Region((bounds[predicate],)) if predicate in bounds else None


@dataclass(frozen=True)
class Region:
    """The pairs of positions for which none of the `bounds` is negative: all pairs if there are no bounds."""

    bounds: tuple[Linear, ...] = ()

    def __and__(self, other: "Region") -> "Region":
        return Region((*self.bounds, *other.bounds))

    def outside(self) -> "Region | None":
        """Returns the complement; None unless that is a region."""
        return Region((self.bounds[0].times(-1) + Linear(0, 0, -1),)) if len(self.bounds) == 1 else None

    def has_own(self) -> bool:
        """Returns whether each query is certain to see the key at its own position, if there is one."""
        return all(b.query + b.key >= 0 and at_most(0, b.constant) for b in self.bounds)

    def meaning(self, keys: SizeLike) -> MaskMeaning | None:
        """Returns the mask with this region in terms of the kernels' flags; None if kernels do not support it. keys: their
        number."""
        ahead: int | None = None
        behind: int | None = None
        first: SizeLike = 0
        end: SizeLike = keys
        for b in self.bounds:
            if b.query == b.key == 0 and at_most(0, b.constant):
                continue
            moving = (b.query, b.key) in ((1, -1), (-1, 1))
            if moving and is_symbolic(b.constant):
                return None
            if (b.query, b.key) == (1, -1):
                ahead = b.constant if ahead is None else min(ahead, b.constant)
            elif (b.query, b.key) == (-1, 1):
                behind = b.constant if behind is None else min(behind, b.constant)
            elif (b.query, b.key) == (0, 1) and first == 0:
                first = -b.constant
            elif (b.query, b.key) == (0, -1) and end == keys:
                end = b.constant + 1
            else:
                return None
        spans = (first, end) != (0, keys)
        if spans and (is_symbolic((first, end)) or first < 0 or not at_most(end, keys) or ahead is not None or behind is not None):
            return None
        offset, window = ahead or 0, 0
        if behind is not None:
            window = behind + 1 + offset
            if window <= 0:
                return None
        return MaskMeaning(ahead is not None, offset, window, (first, end) if spans else None)


CAUSAL = Region((Linear(1, -1, 0),))
"""The region of a causal mask: keys up to the query's own position."""


@dataclass
class SymbolicTerms(MaskTerms):
    """Accumulates the meaning of a mask's terms at symbolic sizes. region: the keys that each query sees."""

    region: Region = field(default_factory=Region)

    def __post_init__(self) -> None:
        """Leaves out `low` and `high`, whose lengths would be symbolic."""

    def show_causal(self) -> None:
        """Narrows the region to the keys up to the query's own position."""
        self.region &= CAUSAL

    def show(self, seen: np.ndarray, wanted: bool = True) -> None:
        """Reads a term of known values: keys are seen where `seen` equals `wanted`. If that is not everywhere, it is unread."""
        self.narrow(Region() if np.all(seen == wanted) else None)

    def narrow(self, region: Region | None) -> None:
        """Narrows the region; None marks the mask as unread."""
        self.unread |= region is None
        self.region &= region or Region()

    def ranges(self) -> tuple[MaskMeaning | None, bool]:
        """Returns the meaning of the region, None if kernels do not support it; and whether a query may see no key at all."""
        return self.region.meaning(self.count), not self.region.has_own() or self.queries != self.count
