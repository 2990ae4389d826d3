"""Schedules on NVIDIA GPUs of pointwise kernels, transposes, and reductions or scans down columns; those of rows: `nvvm_rows`."""

from dataclasses import dataclass, replace
from typing import ClassVar

from .base import TILE_SIDE, BlockConfig, power_of_two

SHORT = 16  # elements of a row below which rows are walked together
WARP = 32  # threads
_CTA = 128  # threads of a CTA, at least: programs of fewer share one
MANY_PARTS = 8  # of a concatenation: a warp rather diverges over some of them than that each thread computes all
BUSY = 1024  # threads that an SM should have work for
WALK_CHUNKS = 4  # accesses in flight per thread when it walks over a row
COLUMN_THREADS = 256  # of a CTA that reduces columns
COLUMN_CTAS = 2  # such CTAs on an SM, at least: without a bound, ptxas saves registers by moving loads to where they are used
COLUMNS = 32  # columns of one CTA at least, where there is much to read: four adjacent sectors
PAIR = 2  # threads of one row at least, where there is little to read: whole sectors
LITTLE = 1 << 20  # elements below which there is little to read
MANY_ELEMENTS = 1 << 22  # of a pointwise kernel, of which each thread takes two accesses
COLUMN_ROWS = 4  # rows of one team at least
PARTS = 32  # parts of a sum that are worth a second kernel, where a call decides how many there are
FILLED = 0.85  # least share of a program's threads with work
LINE = 8  # neighboring threads whose widest accesses make a line of the cache
TRANSPOSE_THREADS = 256  # of a CTA that transposes a tile
TILE_LEAST, TILE_MOST = 8, 512  # bounds of the sides of a transpose tile
TILE_CTAS = 2  # that an SM should have
FULL_ACCESS = 16  # bytes of a thread's widest memory access
SECTOR = 32  # bytes of memory that caches move at a time


@dataclass(frozen=True)
class NvvmConfig(BlockConfig):
    """The shape of a tile program on a GPU.

    threads  of one program, a power of two
    vec      contiguous elements of a thread: one memory access
    chunks   accesses of a thread, threads * vec elements apart
    pack     programs of one CTA
    teams    groups of `threads` that share the rows of one program
    cluster  CTAs that share one program (a thread block cluster)
    resident CTAs that an SM should hold at a time: bounds the registers of a thread (0: the assembler's choice)
    """

    online: ClassVar[bool] = True
    masked: ClassVar[bool] = True
    short_row: ClassVar[int] = SHORT
    threads: int = 128
    vec: int = 4
    chunks: int = 2
    pack: int = 1
    teams: int = 1
    cluster: int = 1
    resident: int = 0

    @property
    def groups(self) -> int:
        """Threads of one program."""
        return self.threads * self.cluster

    @property
    def lanes(self) -> int:
        """Elements of one block."""
        return self.threads * self.vec * self.chunks * self.cluster


def packed(threads: int) -> int:
    """Returns how many programs share a CTA of at least _CTA threads."""
    return max(_CTA // threads, 1)


def pointwise(extent: int, vec: int, rows: int) -> NvvmConfig:
    """Returns the schedule of a pointwise kernel over `rows` rows of `extent` contiguous elements. Where rows would leave many
    threads idle (72 channels, channels last), programs are smaller; the programs of a CTA are adjacent in memory."""
    accesses = -(-extent // vec)
    threads = min(128, power_of_two(accesses))
    chunks = 2 if vec == 8 and extent * rows >= MANY_ELEMENTS and extent >= threads * vec * 2 else 1
    while chunks == 1 and threads > 1 and accesses < FILLED * round_up(accesses, threads):
        threads //= 2
    return NvvmConfig(threads, vec, chunks, pack=packed(threads))


def of_part(config: NvvmConfig, part: int, parts: int) -> NvvmConfig | None:
    """Shrinks a schedule so that every program lies within one of the `parts` of a concatenation, which are multiples of `part`
    contiguous elements. None if a program would be less than a warp, whose threads would diverge over several parts, unless
    there are so many that computing all of them takes longer."""
    threads, chunks = config.threads, config.chunks
    least = WARP if parts < MANY_PARTS else WARP // 4
    while threads > least and part % (threads * config.vec):
        threads //= 2
    if threads < least or part == 0 or part % (threads * config.vec):
        return None
    chunks = chunks if part % (threads * config.vec * chunks) == 0 else 1
    return replace(config, threads=threads, chunks=chunks, pack=packed(threads))


def leaves_threads_idle(extent: int, vec: int) -> bool:
    """Returns whether rows of `extent` contiguous elements, each in its own CTA or part of one, leave a fifth of the threads
    idle."""
    accesses = -(-extent // vec)
    return accesses < 0.8 * round_up(accesses, min(128, power_of_two(accesses)))


def column_reduction(extent: int, vec: int, reduced: int, rows: int, sms: int) -> NvvmConfig:
    """Returns the schedule of `rows` reductions over `reduced` rows each: every thread sums columns of its own, and teams share the
    rows. A CTA has fewer columns where many threads would be past the last one, where few CTAs would have much to do (the channels
    of an image, channels last), or where there are rows for more teams (partial sums)."""
    little = rows * extent * reduced < LITTLE
    least = PAIR if little else max(COLUMNS // vec, 1)

    def narrower(threads: int) -> bool:
        """Returns whether fewer threads in a CTA leave enough CTAs for the GPU."""
        few = rows < sums_that_fill(extent, threads * vec, sms)
        return few and (not little or reduced >= COLUMN_ROWS * COLUMN_THREADS // (threads // 2))

    accesses = -(-extent // vec)
    threads = min(WARP, power_of_two(accesses))
    fullest = min((t for t in (32, 16, LINE) if t <= threads), key=lambda t: (round_up(accesses, t), -t), default=threads)
    if round_up(accesses, fullest) < FILLED * round_up(accesses, threads):
        threads = fullest
    while threads > least and narrower(threads):
        threads //= 2
    teams = min(COLUMN_THREADS // threads, power_of_two(max(reduced // COLUMN_ROWS, 1)))
    pack = packed(threads) if teams == 1 else 1  # an SM holds too few CTAs of a warp to be full
    return NvvmConfig(threads, vec, 1, pack=pack, teams=teams, resident=COLUMN_CTAS)


def sums_that_fill(extent: int, columns: int, sms: int) -> int:
    """Returns how many reductions of `extent` columns leave enough CTAs for a GPU where each has so many of the columns."""
    return -(-(sms * BUSY // 2) // (-(-extent // columns) * COLUMN_THREADS))


def column_scan(extent: int) -> NvvmConfig:
    """Returns the schedule of a scan down columns: every thread has a column of its own."""
    return NvvmConfig(min(WARP, power_of_two(extent)), 1, 1)


def scalar_schedule() -> NvvmConfig:
    """Returns the schedule of programs without a vector axis: every thread computes the same, one stores."""
    return NvvmConfig(WARP, 1, 1)


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


def round_up(n: int, step: int) -> int:
    """Rounds `n` up to a multiple of `step`."""
    return -(-n // step) * step
