"""Counts the memory traffic of a launch for one argument."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

SECTOR = 32  # bytes: the unit of traffic between L2 and the SMs


@dataclass
class Traffic:
    """The loads, or the stores, of one argument in one launch.

    accesses  how many accesses of threads there were, by their width in bytes (at most 16: wider vectors are several)
    requests  instructions of a warp
    touches   for every sector of 32 bytes of the argument, how many requests touched it
    """

    touches: np.ndarray
    accesses: Counter[int] = field(default_factory=Counter)
    requests: int = 0

    @classmethod
    def over(cls, size: int) -> "Traffic":
        """Returns empty counts for an argument of `size` bytes."""
        return cls(touches=np.zeros(-(-size // SECTOR), np.int64))

    @property
    def bytes(self) -> int:
        """Bytes that threads asked for."""
        return sum(width * n for width, n in self.accesses.items())

    @property
    def sectors(self) -> int:
        """Sectors moved, were there no cache between warp and L2."""
        return int(self.touches.sum())

    @property
    def distinct_sectors(self) -> int:
        """Sectors that were touched at all: equal to `sectors` where each is touched once."""
        return int(np.count_nonzero(self.touches))

    def record(self, start: np.ndarray, size: int, width: int, warp: np.ndarray) -> None:
        """One access of each of some threads.

        start  offsets in bytes from the argument's start, one a thread
        size   bytes of the access; `width` of them are one instruction
        warp   the thread's warp, unique in the launch; no thread's is below that of the thread before
        """
        pieces = size // width
        other = warp[1:] != warp[:-1]
        self.accesses[width] += pieces * len(start)
        self.requests += pieces * (1 + int(np.count_nonzero(other))) if len(warp) else 0
        for piece in range(pieces):
            sector = (start + piece * width) // SECTOR
            moved = np.diff(sector)
            if (other | (moved >= 0)).all():  # the sectors of each warp in order, as most are
                first = np.ones(len(sector), bool)
                first[1:] = other | (moved > 0)
                touched = sector[first]
            else:
                touched = np.unique(warp * len(self.touches) + sector) % len(self.touches)
            np.add.at(self.touches, touched, 1)
