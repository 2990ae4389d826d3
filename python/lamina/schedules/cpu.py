"""Block shapes of tile programs on a CPU: vector blocks, transpose tiles, and tiles of depthwise convolutions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from .base import TILE_SIDE, BlockConfig

LINE = 64  # bytes of a cache line
SCATTER_LANES = 16  # lanes of a block that are stored one by one
SCAN_LANES = 16  # steps of a scan whose prefixes are computed at a time: two vectors of f64


@dataclass(frozen=True)
class CpuConfig(BlockConfig):
    """The shape of a tile program on a CPU.

    lanes       elements of one block: several native vectors, so that loads and latencies overlap
    work        least number of elements of one program, the unit of work that threads share
    rest_lanes  as in BlockConfig
    """

    scratch: ClassVar[int] = 262144
    prefetch: ClassVar[bool] = True
    streams: ClassVar[int] = 1 << 23
    wide_sums: ClassVar[bool] = True
    edge_loops: ClassVar[bool] = True
    least_scan: ClassVar[int] = SCAN_LANES
    pairs: ClassVar[bool] = True
    row_blocks: ClassVar[bool] = True
    runs: ClassVar[bool] = False
    lanes: int = 32
    work: int = 8192
    rest_lanes: int = 0


def default_schedule(operations: int, widest: int, extent: int, accumulators: int, exact: bool = True) -> CpuConfig:
    """Returns the default schedule of a group.

    Column reductions take wide blocks: every row gives a contiguous stretch of memory, and the accumulators stay in registers
    (16 of 32 for 256 lanes of f32). What the last whole block leaves is covered by blocks of the usual width: the masks of a wide
    block do not fit in registers (there are 7), and all of its vectors would be computed, however few lanes are left.

    operations    per element
    widest        bits of the largest type computed in
    extent        elements of the vector axis
    accumulators  blocks that a loop over rows carries
    exact         whether `extent` is that of each call; else it is the typical one
    """
    usual = lanes = (64 if operations <= 12 else 32) // (2 if widest > 32 else 1)
    if accumulators and operations <= 6:
        wide = [usual * 4, usual * 2] if accumulators == 1 else [usual * 2]
        fitting = [n for n in wide if not exact or n <= extent]
        lanes = next((n for n in fitting if exact and extent % n == 0), fitting[0] if fitting else usual)
    while lanes > 1 and lanes // 2 >= extent:
        lanes //= 2
    return CpuConfig(lanes=lanes, rest_lanes=usual if lanes > usual and not (exact and extent % lanes == 0) else 0)


REST = 8  # lanes of the last blocks of rows of any length: a native vector of f32, and few lanes that may be masked
REST_COLUMNS = 16  # likewise of blocks that run across rows: a cache line of f32 of each row
VECTOR = 16  # f32 lanes that are copied at a time
CHAINS = 6  # sums that are independent of each other, with which additions take no longer than they are started
_SUMS = 16  # vectors of accumulators in registers
_NEAR, _FAR = 1 << 15, 1 << 18  # bytes of the L1 and L2 caches


def transpose_tile_side(extent: int) -> int:
    """Returns the side of transpose tiles in lanes: the largest with which the last block of an axis masks off no whole vector. A
    store whose mask is all false takes a hundred times as long on some processors."""
    return next(n for n in (TILE_SIDE, TILE_SIDE // 2, VECTOR) if extent % n == 0 or extent % n > n - VECTOR)


def window_tile(columns: int, rows: int) -> tuple[int, int]:
    """Returns the register tile of a windowed sum, (columns, rows). The block of columns is a power of two: the widest that takes
    at most a seventh more vectors than the best."""
    widest = VECTOR * (4 if rows >= 4 else _SUMS // min(rows, 2))
    vectors = {n: -(-columns // n) * n // VECTOR for n in (widest >> i for i in range(8)) if n >= VECTOR}
    lanes = next(n for n, count in vectors.items() if count * 7 <= min(vectors.values()) * 8)
    while lanes > 4 and lanes // 2 >= columns:
        lanes //= 2
    return lanes, min(rows, max(_SUMS * VECTOR // max(lanes, VECTOR), 1), 8)


def rows_per_program(rows: int, tile: int, memory: Callable[[int], int]) -> int | None:
    """Returns the rows of one program, a divisor of `rows`: the most whose copy of the image fits in L1, or in L2 where L1 holds
    fewer than four tiles. None if not even one tile fits. memory: bytes of the copy for a number of rows."""
    divisors = [n for n in range(rows, 0, -1) if rows % n == 0]
    near = next((n for n in divisors if memory(n) <= _NEAR), 0)
    if near >= min(4 * tile, rows):
        return near
    far = next((n for n in divisors if memory(n) <= _FAR), 0)
    return far if far >= min(tile, rows) else None
