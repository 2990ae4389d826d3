"""Schedules of tile programs on NVIDIA GPUs: threads, vector width and CTAs for pointwise, reduction and scan kernels."""

from dataclasses import dataclass, replace
from typing import ClassVar

from .base import BlockConfig, power_of_two

SHORT = 16  # elements of a row below which rows are walked together
WARP = 32  # threads
_CTA = 128  # threads of a CTA, at least: programs of fewer share one
REGISTER_ELEMENTS = 32  # elements of a row in one thread's registers; more leave too few warps to hide memory latency
SHARED_ELEMENTS = 24  # elements of a row of each of several inputs in one thread's registers, with two CTAs per SM
MOST_THREADS = 512  # of one row; more would leave a thread fewer registers than a long row needs
MANY_PARTS = 8  # of a concatenation: a warp rather diverges over some of them than that each thread computes all
BUSY = 1024  # threads that an SM should have work for
WALK_THREADS = 256  # of one row that a loop walks over
SORT_ELEMENTS = 8  # of a row in one thread that sorts it
SMALL_CTAS = 8  # for each SM, from which on a warp to a row is better than CTAs of two to four warps with a barrier
REGISTERS = 1 << 16  # of an SM
HELD = 128  # elements that a thread holds at most where it has several accesses of each input in flight
ADDRESSING = 24  # registers of a thread that walks over rows, besides the elements that it holds
ALONE = 1 << 16  # bytes of a row that one SM reads about as fast as several agree on a result
STEPS = 4  # that each CTA takes at least where several share a row that they walk over
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


def _packed(threads: int) -> int:
    """Returns how many programs share a CTA of at least _CTA threads."""
    return max(_CTA // threads, 1)


def _packed_rows(threads: int) -> int:
    """Returns how many programs of rows share a CTA: one where a program has more than a warp."""
    return _packed(threads) if threads <= WARP else 1


def pointwise(extent: int, vec: int, rows: int) -> NvvmConfig:
    """Returns the schedule of a pointwise kernel over `rows` rows of `extent` contiguous elements. Where rows would leave many
    threads idle (72 channels, channels last), programs are smaller; the programs of a CTA are adjacent in memory."""
    accesses = -(-extent // vec)
    threads = min(128, power_of_two(accesses))
    chunks = 2 if vec == 8 and extent * rows >= MANY_ELEMENTS and extent >= threads * vec * 2 else 1
    while chunks == 1 and threads > 1 and accesses < FILLED * round_up(accesses, threads):
        threads //= 2
    return NvvmConfig(threads, vec, chunks, pack=_packed(threads))


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
    return replace(config, threads=threads, chunks=chunks, pack=_packed(threads))


def leaves_threads_idle(extent: int, vec: int) -> bool:
    """Returns whether rows of `extent` contiguous elements, each in its own CTA or part of one, leave a fifth of the threads
    idle."""
    accesses = -(-extent // vec)
    return accesses < 0.8 * round_up(accesses, min(128, power_of_two(accesses)))


def row_reduction(
    extent: int,
    vec: int,
    rows: int,
    inputs: int,
    sms: int,
    most_ctas: int,
    item: int = 0,
    walking: int = 1,
    ctas: int = 1,
    values: int = 0,
) -> NvvmConfig:
    """Returns the schedule of reductions along `rows` rows of `extent` contiguous elements.

    inputs     tensors that are read whole
    most_ctas  CTAs of a cluster at most (1: there are no clusters)
    item       bytes of an element: with narrow accesses, the threads of a row together read a sector at least (0: any number)
    walking    CTAs that a row has at most where it does not stay in registers and is long enough for them
    ctas       CTAs that a row should have, though it may find room in fewer (see ctas_of_few)
    values     see row_walk
    """
    accesses = -(-extent // vec)
    threads = max(power_of_two(-(-extent // REGISTER_ELEMENTS)), min(_of_short_row(accesses, LINE), WARP))
    if 0 < vec * item < FULL_ACCESS:
        threads = max(threads, SECTOR // (vec * item))
    most = 256  # of few rows
    if rows >= sms and accesses <= WARP * WALK_CHUNKS:
        most = _most_of_short_row(accesses)
    elif rows >= SMALL_CTAS * sms and threads <= WARP:
        most = WARP
    while threads < min(most, power_of_two(accesses)) and rows * threads < sms * BUSY:
        threads *= 2
    threads = min(threads, MOST_THREADS, power_of_two(accesses))
    chunks = max(-(-extent // (threads * vec)), 1)
    if chunks * vec > REGISTER_ELEMENTS or ctas > 1:
        cluster = max(power_of_two(-(-extent // (threads * REGISTER_ELEMENTS))), ctas)
        if cluster <= most_ctas and extent >= 4 * threads * vec:
            chunks = -(-extent // (threads * vec * cluster))
            resident = 2 if inputs == 1 or chunks * vec <= SHARED_ELEMENTS else 0
            return NvvmConfig(threads, vec, chunks, cluster=cluster, resident=resident)
    if chunks * vec > 2 * REGISTER_ELEMENTS:
        chunks = max(16 // vec, 1)  # does not fit in registers: the program loops over the row
        ctas = _sharing(extent, threads * vec * chunks, walking)
        pack = 1 if ctas > 1 else _packed_rows(threads)
        resident = _walking_ctas(threads * pack, vec * chunks * values)
        return NvvmConfig(threads, vec, chunks, pack, cluster=ctas, resident=resident)
    return NvvmConfig(threads, vec, chunks, pack=_packed_rows(threads))


def ctas_of_few(rows: int, bytes_: int, sms: int, most: int) -> int:
    """Returns how many CTAs, a power of two up to `most`, should share each of few rows, of which one reads so many bytes: an SM
    reads `ALONE` in about a microsecond, while others are idle."""
    ctas = 1
    while 2 * ctas <= most and 2 * ctas * rows <= sms and 2 * ctas * ALONE <= bytes_:
        ctas *= 2
    return ctas


def row_walk(extent: int, vec: int, rows: int, sms: int, ctas: int, values: int = 0) -> NvvmConfig:
    """Returns the schedule of a single pass over `rows` rows that need not stay in registers: enough accesses in flight. Few rows
    have more threads each, and rows that are long enough up to `ctas` CTAs each.

    values  the tensors that are read and the results that are held, of several inputs (0: of one)
    """
    accesses = -(-extent // vec)
    threads = min(WALK_THREADS, _of_short_row(accesses, LINE // 2))
    while threads < min(_most_of_short_row(accesses), power_of_two(accesses)) and rows * threads < sms * BUSY:
        threads *= 2
    chunks = max(min(WALK_CHUNKS, -(-accesses // threads)), 1)
    while chunks > 1 and chunks * vec * values > HELD:
        chunks //= 2
    if threads == 2 * WARP and rows >= SMALL_CTAS * sms:  # CTAs of two warps
        threads, chunks = WARP, -(-accesses // WARP)
    shared = _sharing(extent, threads * vec * chunks, ctas)
    pack = 1 if shared > 1 else _packed_rows(threads)
    resident = _walking_ctas(threads * pack, vec * chunks * values)
    return NvvmConfig(threads, vec, chunks, pack, cluster=shared, resident=resident)


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


def _sharing(extent: int, step: int, most: int) -> int:
    """Returns how many CTAs, a power of two up to `most`, share a row of which each walks over `step` elements at once."""
    while most > 1 and extent < STEPS * step * most:
        most //= 2
    return most


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


def in_teams(walk: NvvmConfig) -> NvvmConfig:
    """Returns the schedule of a pass over rows in several pieces, which teams of threads share."""
    return replace(walk, teams=WALK_THREADS // walk.threads, pack=1) if walk.threads < WALK_THREADS else walk


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
    pack = _packed(threads) if teams == 1 else 1  # an SM holds too few CTAs of a warp to be full
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


def round_up(n: int, step: int) -> int:
    """Rounds `n` up to a multiple of `step`."""
    return -(-n // step) * step
