"""What the parts of one kernel are all told, as one constant."""

from dataclasses import dataclass
from typing import Any

from triton.runtime.jit import constexpr_function


@dataclass(frozen=True)
class Sizes:
    """Parameters of `specialised` that its parts need, and what follows from them.

    M       queries of a group of warps
    ROWS    queries of a tile
    PLACES  tiles of a head
    PAIR    2: where later queries see more keys, a program takes a late tile and then an early one, so that all have as much to do
    UNITS   tiles, or pairs of them, of all heads
    """

    OUT: tuple[int, ...]
    SUMS: tuple[int, ...]
    LOGS: int
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
        return self.M * self.GROUPS

    @property
    def PAIR(self) -> int:
        tiles = -(-self.QUERIES // self.ROWS) * self.BATCH * self.HEADS
        return 2 if self.CAUSAL and not self.WINDOW and tiles > self.PROGRAMS else 1

    @property
    def PLACES(self) -> int:
        """As many again where they are taken in pairs: the last may be of no queries."""
        return -(-self.QUERIES // (self.ROWS * self.PAIR)) * self.PAIR

    @property
    def UNITS(self) -> int:
        return self.PLACES // self.PAIR * self.BATCH * self.HEADS


@constexpr_function  # type: ignore[untyped-decorator]
def sizes(*given: Any) -> Sizes:
    """Of the fields in order."""
    return Sizes(*given)
