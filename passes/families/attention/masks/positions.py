"""The meaning of masks that compare positions, where the numbers of queries and keys are symbolic: `meaning` evaluates masks, which
needs numbers.

A key is seen where some linear functions of the query's and the key's position are not negative: `q - k >= 0` is causal,
`k - q + 127 >= 0` a window of 128.
"""

from dataclasses import dataclass, field

import numpy as np

from lamina.core.sizes import SizeLike, at_most, is_symbolic

from .meaning import MaskTerms, Meaning

PREDICATES = ("eq", "ne", "lt", "le", "gt", "ge", *["unsigned"] * 4)
"""Comparisons, by the number of arith.cmpi's predicate. Differences of positions may be negative: unsigned ones are not read."""


@dataclass(frozen=True)
class Linear:
    """The number `query * q + key * k + constant`, for the positions q of a query and k of a key."""

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
        """Whether it is certainly not negative."""
        return self.query >= 0 and self.key >= 0 and at_most(0, self.constant)

    def compared(self, predicate: str, other: "Linear") -> "Region | None":
        """Returns where a comparison of whole numbers holds; None for one that is not a single inequality."""
        ahead = self + other.times(-1)
        bounds = {"ge": ahead, "gt": ahead + Linear(0, 0, -1), "le": ahead.times(-1), "lt": ahead.times(-1) + Linear(0, 0, -1)}
        return Region((bounds[predicate],)) if predicate in bounds else None


@dataclass(frozen=True)
class Region:
    """Where all of these are not negative; everywhere without any."""

    bounds: tuple[Linear, ...] = ()

    def __and__(self, other: "Region") -> "Region":
        return Region((*self.bounds, *other.bounds))

    def outside(self) -> "Region | None":
        """Returns where it does not hold; None where that is not a region."""
        return Region((self.bounds[0].times(-1) + Linear(0, 0, -1),)) if len(self.bounds) == 1 else None

    def has_own(self) -> bool:
        """Returns whether each query sees the key at its own position, wherever there is one."""
        return all(b.query + b.key >= 0 and at_most(0, b.constant) for b in self.bounds)

    def meaning(self, keys: SizeLike) -> Meaning | None:
        """Returns what it means, None where kernels do not support that. keys: how many there are."""
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
        return Meaning(ahead is not None, offset, window, (first, end) if spans else None)


CAUSAL = Region((Linear(1, -1, 0),))
"""Keys up to the query's own position."""


@dataclass
class SymbolicTerms(MaskTerms):
    """Accumulates what the terms of a mask of symbolic sizes mean. region: the keys that each query sees."""

    region: Region = field(default_factory=Region)

    def __post_init__(self) -> None:
        pass

    def show_causal(self) -> None:
        """Narrows each query's range to the keys up to its own position."""
        self.region &= CAUSAL

    def show(self, seen: np.ndarray, wanted: bool = True) -> None:
        """Takes that keys are seen where `seen` equals `wanted`: everywhere, else it is unread."""
        self.narrow(Region() if np.all(seen == wanted) else None)

    def narrow(self, region: Region | None) -> None:
        """Narrows the region; unread where it is None."""
        self.unread |= region is None
        self.region &= region or Region()

    def ranges(self) -> tuple[Meaning | None, bool]:
        """Returns what the region means, None where kernels do not support that; and whether a query may see no key."""
        return self.region.meaning(self.count), not self.region.has_own() or self.queries != self.count
