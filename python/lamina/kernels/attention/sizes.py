"""Constants that all functions of `specialized` need, as one compile-time object."""

from dataclasses import dataclass
from typing import Any

from triton.runtime.jit import constexpr_function


@dataclass(frozen=True)
class Sizes:
    """Parameters of `specialized` that its functions need, and values derived from them.

    M       queries of a warp group
    ROWS    queries of a tile
    PLACES  tiles of a head
    PAIR    2 where later queries see more keys: a program takes a late tile and then an early one, so that all have equal work
    UNITS   tiles, or pairs of them, of all heads
    """

    OUT: tuple[int, ...]
    SUMS: tuple[int, ...]
    BATCH: int
    HEADS: int
    GROUP: int
    QUERIES: int
    KEYS: int
    VALUES: int
    SCALE: float
    CAUSAL: bool
    OFFSET: int
    WINDOW: int
    BOUNDS: tuple[int, ...]
    TOGETHER: int
    GROUPS: int
    N: int
    D: int
    E: int
    STAGES: int
    PROGRAMS: int
    M: int = 64

    @property
    def ROWS(self) -> int:
        """Queries of a tile: of all warp groups together."""
        return self.M * self.GROUPS

    @property
    def PAIR(self) -> int:
        """Tiles that a program takes as a unit: 2 with CAUSAL, no WINDOW and more tiles than programs, else 1."""
        tiles = -(-self.QUERIES // self.ROWS) * self.BATCH * self.HEADS
        return 2 if self.CAUSAL and not self.WINDOW and tiles > self.PROGRAMS else 1

    @property
    def PLACES(self) -> int:
        """Tiles of a head, rounded up to whole pairs: the last tile may have no queries."""
        return -(-self.QUERIES // (self.ROWS * self.PAIR)) * self.PAIR

    @property
    def UNITS(self) -> int:
        """Units of work, over which programs stride."""
        return self.PLACES // self.PAIR * self.BATCH * self.HEADS


@constexpr_function  # type: ignore[untyped-decorator]
def sizes(*given: Any) -> Sizes:
    """Makes a Sizes from its fields in order."""
    return Sizes(*given)
