"""Schedules of kernels that reduce, scan or sort along rows on NVIDIA GPUs: threads of a row, CTAs that share one, registers."""

from dataclasses import dataclass, replace

from .base import power_of_two
from .nvvm import BUSY, FULL_ACCESS, LINE, SECTOR, WALK_CHUNKS, WARP, NvvmConfig, packed

REGISTER_ELEMENTS = 32  # elements of a row in one thread's registers; more leave too few warps to hide memory latency
SHARED_ELEMENTS = 24  # elements of a row of each of several inputs in one thread's registers, with two CTAs per SM
MOST_THREADS = 512  # of one row; more would leave a thread fewer registers than a long row needs
WALK_THREADS = 256  # of one row that a loop walks over
SORT_ELEMENTS = 8  # of a row in one thread that sorts it
SMALL_CTAS = 8  # for each SM, from which on a warp to a row is better than CTAs of two to four warps with a barrier
REGISTERS = 1 << 16  # of an SM
HELD = 128  # elements that a thread holds at most where it has several accesses of each input in flight
ADDRESSING = 24  # registers of a thread that walks over rows, besides the elements that it holds
ALONE = 1 << 16  # bytes of a row that one SM reads about as fast as several agree on a result
STEPS = 4  # that each CTA takes at least where several share a row that they walk over


@dataclass(frozen=True)
class RowKernel:
    """What the schedule of a kernel that reduces or scans along rows depends on.

    extent     elements of a row, contiguous in memory
    vec        elements of one memory access
    rows       number of rows
    sms        SMs of the GPU
    inputs     tensors that are read whole
    values     values that a thread holds for each element of a row, of which it loads several: inputs and results. 0 where it loads
               one: such a kernel needs no bound of its registers
    item       bytes of the narrowest element where accesses are narrower than a thread's widest; 0 where they are not
    row_bytes  bytes that are read for one row (0: few)
    """

    extent: int
    vec: int
    rows: int
    sms: int
    inputs: int = 1
    values: int = 0
    item: int = 0
    row_bytes: int = 0

    @property
    def accesses(self) -> int:
        """Memory accesses of a row."""
        return -(-self.extent // self.vec)

    def with_more_threads(self, threads: int, most: int) -> int:
        """Doubles the threads of a row, up to `most` and one for each access, until the rows keep the GPU busy."""
        while threads < min(most, power_of_two(self.accesses)) and self.rows * threads < self.sms * BUSY:
            threads *= 2
        return threads


def row_reduction(row: RowKernel, most_ctas: int, walking: int = 1) -> NvvmConfig:
    """Returns the schedule of reductions along rows, which stay in registers where they fit.

    most_ctas  CTAs that share a row in registers, at most (1: the GPU has no clusters)
    walking    CTAs that share a row that does not stay in registers, or one of few rows, at most
    """
    threads, vec = _threads_of_row(row), row.vec
    chunks = max(-(-row.extent // (threads * vec)), 1)
    least = ctas_of_few(row, walking)
    if chunks * vec > REGISTER_ELEMENTS or least > 1:
        cluster = max(power_of_two(-(-row.extent // (threads * REGISTER_ELEMENTS))), least)
        if cluster <= most_ctas and row.extent >= 4 * threads * vec:
            chunks = -(-row.extent // (threads * vec * cluster))
            resident = 2 if row.inputs == 1 or chunks * vec <= SHARED_ELEMENTS else 0
            return NvvmConfig(threads, vec, chunks, cluster=cluster, resident=resident)
    if chunks * vec > 2 * REGISTER_ELEMENTS:
        return _walk(row, threads, max(16 // vec, 1), walking)
    return NvvmConfig(threads, vec, chunks, pack=_packed_rows(threads))


def _threads_of_row(row: RowKernel) -> int:
    """Returns how many threads reduce a row that stays in registers. Together they read a sector at least; few rows have more."""
    threads = max(power_of_two(-(-row.extent // REGISTER_ELEMENTS)), min(_of_short_row(row.accesses, LINE), WARP))
    if 0 < row.vec * row.item < FULL_ACCESS:
        threads = max(threads, SECTOR // (row.vec * row.item))
    most = 256  # of few rows
    if row.rows >= row.sms and row.accesses <= WARP * WALK_CHUNKS:
        most = _most_of_short_row(row.accesses)
    elif row.rows >= SMALL_CTAS * row.sms and threads <= WARP:
        most = WARP
    return min(row.with_more_threads(threads, most), MOST_THREADS, power_of_two(row.accesses))


def ctas_of_few(row: RowKernel, most: int) -> int:
    """Returns how many CTAs, a power of two up to `most`, should share each of few rows: an SM reads `ALONE` bytes in about a
    microsecond, while others are idle."""
    ctas = 1
    while 2 * ctas <= most and 2 * ctas * row.rows <= row.sms and 2 * ctas * ALONE <= row.row_bytes:
        ctas *= 2
    return ctas


def row_walk(row: RowKernel, ctas: int = 1) -> NvvmConfig:
    """Returns the schedule of a single pass over rows that need not stay in registers: enough accesses in flight. Few rows have
    more threads each, and rows that are long enough up to `ctas` CTAs each."""
    accesses = row.accesses
    threads = row.with_more_threads(min(WALK_THREADS, _of_short_row(accesses, LINE // 2)), _most_of_short_row(accesses))
    chunks = max(min(WALK_CHUNKS, -(-accesses // threads)), 1)
    while chunks > 1 and chunks * row.vec * row.values > HELD:
        chunks //= 2
    if threads == 2 * WARP and row.rows >= SMALL_CTAS * row.sms:  # CTAs of two warps
        threads, chunks = WARP, -(-accesses // WARP)
    return _walk(row, threads, chunks, ctas)


def in_teams(walk: NvvmConfig) -> NvvmConfig:
    """Returns the schedule of a pass over rows in several pieces, which teams of threads share."""
    return replace(walk, teams=WALK_THREADS // walk.threads, pack=1) if walk.threads < WALK_THREADS else walk


def _walk(row: RowKernel, threads: int, chunks: int, most: int) -> NvvmConfig:
    """Returns the schedule of programs that loop over a row, by `chunks` accesses of each of so many threads. CTAs, a power of two
    up to `most`, share a row where each takes several steps."""
    while most > 1 and row.extent < STEPS * threads * row.vec * chunks * most:
        most //= 2
    pack = 1 if most > 1 else _packed_rows(threads)
    resident = _walking_ctas(threads * pack, row.vec * chunks * row.values)
    return NvvmConfig(threads, row.vec, chunks, pack, cluster=most, resident=resident)


def _walking_ctas(threads: int, held: int) -> int:
    """Returns how many CTAs of so many threads, which hold so many elements each, an SM should hold, so that the loads of all
    inputs are in flight at once: without a bound, ptxas saves registers by moving those of one behind what is computed from
    another's. 0 for no bound: of nothing that is held, and where elements are too many."""
    ctas = REGISTERS // (threads * (ADDRESSING + held))
    return ctas if held and ctas > 1 else 0


def _of_short_row(accesses: int, enough: int) -> int:
    """Returns the threads of a row with so many accesses, of many rows: half as many, up to `enough`, so that each has two accesses
    in flight and neighbors read a line together, and more where each would have more than four."""
    return max(min(enough, power_of_two(accesses) // 2), power_of_two(-(-accesses // WALK_CHUNKS)), 1)


def _most_of_short_row(accesses: int) -> int:
    """Returns the threads of a short row with so many accesses, where rows are too few to fill a GPU with `_of_short_row`. In CTAs
    of two warps, 3,000 rows of 1.5 kilobytes took twice as long on an H200."""
    return min(max(power_of_two(accesses) // 2, LINE), WARP)


def row_sort(extent: int, vec: int, rows: int, sms: int) -> NvvmConfig:
    """Returns the schedule of sorts of `rows` rows of `extent` elements, whose blocks have as many lanes as a power of two. Most
    steps stay in a thread's registers where it has several elements; few rows have more threads."""
    lanes = max(power_of_two(extent), vec)
    threads = max(lanes // max(SORT_ELEMENTS, vec), 1)
    while rows <= rows_that_fill(2 * threads, sms) and threads * max(vec, 2) < min(lanes, WARP * SORT_ELEMENTS):
        threads *= 2
    return NvvmConfig(threads, vec, lanes // (threads * vec), pack=_packed_rows(threads))


def rows_that_fill(threads: int, sms: int) -> int:
    """Returns how many rows fill a GPU where so many threads sort each."""
    return sms * BUSY // (2 * threads)


def _packed_rows(threads: int) -> int:
    """Returns how many programs of rows share a CTA: one where a program has more than a warp."""
    return packed(threads) if threads <= WARP else 1
