"""Schedules of transposes by tiles on NVIDIA GPUs."""

from .base import TILE_SIDE, power_of_two
from .nvvm import NvvmConfig

TRANSPOSE_THREADS = 256  # of a CTA that transposes a tile
TILE_LEAST, TILE_MOST = 8, 512  # bounds of the sides of a transpose tile
TILE_CTAS = 2  # that an SM should have


def transpose_tiles(vec: int, lanes: int, rows: int, others: int, sms: int) -> tuple[NvvmConfig, int]:
    """Returns the schedule of `others` transposes by tiles whose rows the threads share, and how many rows a tile has: as many as
    lanes, but tiles of a tensor that is short along one side, such as an image of few channels, are longer along the other, as far
    as there are enough of them for the GPU.

    lanes  extent along the vector axis
    rows   extent across it
    """
    short, long = sorted((lanes, rows))
    side = max(min(power_of_two(short), TILE_SIDE), TILE_LEAST)
    longer = min(TILE_SIDE * TILE_SIDE // side, TILE_MOST)
    while longer > TILE_SIDE and (longer >= 2 * long or others * -(-short // side) * -(-long // longer) < TILE_CTAS * sms):
        longer //= 2
    wide, high = (side, longer) if lanes <= rows else (longer, side)
    threads = min(wide // vec, TRANSPOSE_THREADS)
    return NvvmConfig(threads, vec, wide // (threads * vec), teams=TRANSPOSE_THREADS // threads), high
