"""Block shapes on a CPU."""

from collections.abc import Callable
from dataclasses import dataclass

from .base import SQUARE


@dataclass(frozen=True)
class Config:
    """How a group becomes a tile program on a CPU.

    lanes    elements of one block; several native vectors, so that loads and latencies overlap
    work     elements that one program handles at least: the unit that threads share
    scratch  bytes up to which values of a row are kept between two loops over it, rather than computed again
    reuse    operations from which on a value is worth keeping

    The rest is as in base.BlockConfig.
    """

    lanes: int = 32
    work: int = 8192
    scratch: int = 262144
    reuse: int = 8
    prefetch: bool = True
    streams: int = 1 << 23
    teams: int = 1
    online: bool = False
    groups: int = 1
    masked: bool = False
    wide_sums: bool = True
    apart: bool = True


def choose(operations: int, widest: int, extent: int, accumulators: int) -> Config:
    """The first schedule. operations: per element; widest: bits of the largest type computed in; extent: of the
    vector axis; accumulators: blocks that a loop over rows carries. Such column reductions take wide blocks: every row gives a
    whole stretch of memory, and the accumulators stay in registers (16 of 32 for 256 lanes of f32)."""
    lanes = 64 if operations <= 12 else 32
    if accumulators and operations <= 6:
        lanes = 256 if accumulators == 1 else 128
    if widest > 32:
        lanes //= 2
    while lanes > 1 and lanes // 2 >= extent:
        lanes //= 2
    return Config(lanes=lanes)


SCAN_LANES = 16  # steps of a scan whose prefixes are found at the same time: two vectors of f64
VECTOR = 16  # f32 lanes that are copied at a time
_SUMS = 16  # vectors of sums that are in registers
_NEAR, _FAR = 1 << 15, 1 << 18  # bytes that the first cache holds, and the second


def side(extent: int) -> int:
    """Lanes of squares that are transposed: the most of which the last block of an axis leaves no whole vector out. A store
    that leaves out all that it could write takes a hundred times as long on some processors."""
    return next(n for n in (SQUARE, SQUARE // 2, VECTOR) if extent % n == 0 or extent % n > n - VECTOR)


def tile(columns: int, rows: int) -> tuple[int, int]:
    """Sums over windows that are in registers at the same time: columns, and rows of them. Columns come in blocks of a power of
    two, the widest that takes no more than a seventh more vectors than the best."""
    widest = VECTOR * (4 if rows >= 4 else _SUMS // min(rows, 2))
    vectors = {n: -(-columns // n) * n // VECTOR for n in (widest >> i for i in range(8)) if n >= VECTOR}
    lanes = next(n for n, count in vectors.items() if count * 7 <= min(vectors.values()) * 8)
    while lanes > 4 and lanes // 2 >= columns:
        lanes //= 2
    return lanes, min(rows, max(_SUMS * VECTOR // max(lanes, VECTOR), 1), 8)


def chunk(rows: int, tile: int, memory: Callable[[int], int]) -> int | None:
    """Rows of a program, of which there are no others left over: the most whose copy of the image stays in the first cache, or in
    the second where these would be few. memory: bytes of the copy; None where not even some rows fit."""
    divisors = [n for n in range(rows, 0, -1) if rows % n == 0]
    near = next((n for n in divisors if memory(n) <= _NEAR), 0)
    if near >= min(4 * tile, rows):
        return near
    far = next((n for n in divisors if memory(n) <= _FAR), 0)
    return far if far >= min(tile, rows) else None
