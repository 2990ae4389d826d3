"""Declares the protocol that a target's Config gives to the emitter of tile programs."""

from typing import Protocol

SQUARE = 64  # side of a transpose tile on every target: whole cache lines and few pages on both sides


class BlockConfig(Protocol):
    """The shape of a tile program: how a target blocks and schedules the loops of a group.

    lanes     elements of one block
    scratch   largest size in bytes at which values of a row are kept in scratch memory between two loops over it (0: never)
    reuse     number of operations from which on a value is worth keeping
    prefetch  emits software prefetches for data that is read later
    streams   size in bytes of a result from which on its stores bypass the caches (0: never)
    teams     groups of threads that share the iterations of a loop over columns (1: there are none)
    online    computes a maximum and the sum of exponentials relative to it in one loop (online softmax)
    groups    threads of one program
    wide_sums accumulates in f64 where an f32 sum runs over many iterations or over the lanes of a block
    masked    covers a chunk by one masked block instead of whole blocks and a tail
    apart     gives blocks that may cross the edge of an image loops of their own, so that the others need no bounds checks
    """

    @property
    def lanes(self) -> int:
        """Elements of one block."""
        ...

    @property
    def scratch(self) -> int:
        """Bytes of a row kept in scratch memory at most; 0: none."""
        ...

    @property
    def reuse(self) -> int:
        """Operations from which on a value is worth keeping."""
        ...

    @property
    def prefetch(self) -> bool:
        """Whether to emit software prefetches."""
        ...

    @property
    def streams(self) -> int:
        """Bytes of a result from which on stores bypass the caches; 0: never."""
        ...

    @property
    def masked(self) -> bool:
        """Whether one masked block covers a chunk."""
        ...

    @property
    def apart(self) -> bool:
        """Whether blocks at the edge of an image have loops of their own."""
        ...

    @property
    def wide_sums(self) -> bool:
        """Whether long f32 sums accumulate in f64."""
        ...

    @property
    def teams(self) -> int:
        """Groups of threads that share a loop over columns."""
        ...

    @property
    def online(self) -> bool:
        """Whether maximum and sum of exponentials take one loop."""
        ...

    @property
    def groups(self) -> int:
        """Threads of one program."""
        ...
