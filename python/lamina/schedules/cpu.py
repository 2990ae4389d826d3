"""Block shapes on a CPU."""

from dataclasses import dataclass


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
