"""The base class of the targets' Configs: the blocks of a tile program, and the preferences of each target."""

from typing import ClassVar

TILE_SIDE = 64  # side of a transpose tile on every target: whole cache lines and few pages on both sides


def power_of_two(n: int) -> int:
    """Returns the smallest power of two that is at least `n`."""
    return 1 << max(n - 1, 0).bit_length()


class BlockConfig:
    """The shape of a tile program: how a target blocks and schedules the loops of a group.

    Class variables are the same for all programs of a target, the others are chosen for each.

    scratch     largest size in bytes at which values of a row are kept in scratch memory between two loops over it (0: never)
    reuse       number of operations from which on a value is worth keeping
    prefetch    emits software prefetches for data that is read later
    streams     size in bytes of a result from which on its stores bypass the caches (0: never)
    online      computes a maximum and the sum of exponentials relative to it in one loop (online softmax)
    wide_sums   accumulates in f64 where an f32 sum runs over many iterations or over the lanes of a block
    masked      covers a chunk by one masked block instead of whole blocks and a tail
    rest_lanes  lanes of the blocks for the elements that whole blocks leave over, if their number is symbolic (0: as many as
                others)
    edge_loops  runs blocks that may cross the edge of an image in separate loops, so that the other blocks need no bounds checks
    least_scan  elements of a scan from which on blocks run along it
    short_row   elements of a contiguous row below which it is flattened with the axis outside of it, as are the columns (0: never)
    pairs       a load with a stride of 2 reads whole blocks, and drops every second element in registers
    row_blocks  computes what follows the sums of short rows for several rows at a time
    runs        reads and writes the lanes of a flattened axis run by run; else one by one
    teams       groups of threads that share the iterations of a loop over columns
    """

    scratch: ClassVar[int] = 0
    reuse: ClassVar[int] = 8
    prefetch: ClassVar[bool] = False
    streams: ClassVar[int] = 0
    online: ClassVar[bool] = False
    wide_sums: ClassVar[bool] = False
    masked: ClassVar[bool] = False
    edge_loops: ClassVar[bool] = False
    least_scan: ClassVar[int] = 0
    short_row: ClassVar[int] = 0
    pairs: ClassVar[bool] = False
    row_blocks: ClassVar[bool] = False
    runs: ClassVar[bool] = True
    rest_lanes: int = 0
    teams: int = 1

    @property
    def lanes(self) -> int:
        """Elements of one block."""
        raise NotImplementedError

    @property
    def groups(self) -> int:
        """Threads of one program."""
        return 1
