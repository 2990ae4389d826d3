"""Block shapes on NVIDIA GPUs."""

from dataclasses import dataclass, replace

from .base import SQUARE

SHORT = 16  # elements of a row below which rows are walked together
WARP = 32
REGISTER_ELEMENTS = 32  # of a row that one thread holds; more leave too few warps to hide memory's latency
SHARED_ELEMENTS = 24  # of each of several rows that one thread reads, in half of an SM's registers
MOST_THREADS = 512  # of one row: more cut the registers of a thread below what a long row needs
BUSY = 1024  # threads an SM should have work for
WALK_THREADS = 256  # of a row that is walked over
WALK_CHUNKS = 4  # accesses that a thread has in flight when it walks over a row
COLUMN_THREADS = 256  # of a CTA that reduces columns
COLUMNS = 32  # of one CTA at least, where there is much to read: four sectors side by side
PAIR = 2  # threads of one row at least, where there is little: whole sectors
LITTLE = 1 << 20  # elements
COLUMN_ROWS = 4  # rows of a team at least
FILLED = 0.85  # of a program's threads, at least
FULL_ACCESS = 16  # bytes of a thread's widest access
SECTOR = 32  # bytes of memory that caches move at a time
NARROW_LATENCY = 8  # bytes: a thread that asks for as many at a time waits as long as memory takes to deliver them
NARROW_ENOUGH = 32  # bytes that a thread asks for at a time, from which on more hide nothing
NARROW_ELEMENTS = 24  # of a thread at most: longer programs do not stay in the cache of instructions
NARROW_LOADS = 48  # registers of a thread for what it asks for
RUN_COST = 0.3  # of an element whose place takes a division, in those that take none
SQUARE_THREADS = 256  # of a CTA that transposes a square
SHARED_COLUMNS = 2  # pixels of a row that strips read beside their own: of windows of three columns
LONGEST_STRIP, SHORTEST_STRIP = 14, 4  # columns of a thread that sums over windows
GROUP_WIDTH = 4  # features of a thread that sums over several channels: as many multiply an element that it reads of the image
STRIP_WEIGHTS = 48  # numbers of the weight that such a thread holds
STRIP_PIXELS = 32  # of a row of the image, that such a thread reads at most: more find no registers
STRIP_CHANNELS = 32  # neighbours in memory that such threads read: whole sectors
STRIP_THREADS = 256  # of a CTA of them: it reads the rows that its windows share once
LARGE_WINDOW = 25  # elements, above which there is enough to do for smaller CTAs to share it evenly


@dataclass(frozen=True)
class Config:
    """How a group becomes a tile program on a GPU.

    threads  of one program, a power of two
    vec      neighbouring elements of a thread: one memory access
    chunks   accesses of a thread, threads * vec elements apart
    pack     programs of one CTA
    teams    groups of `threads` that share the rows of one program
    cluster  CTAs that share one program
    resident CTAs that an SM should hold at a time: bounds the registers of a thread (0: the assembler's choice)

    The rest is as in base.BlockConfig.
    """

    threads: int = 128
    vec: int = 4
    chunks: int = 2
    pack: int = 1
    teams: int = 1
    cluster: int = 1
    resident: int = 0
    scratch: int = 0
    reuse: int = 8
    prefetch: bool = False
    streams: int = 0
    masked: bool = True
    online: bool = True
    wide_sums: bool = False
    apart: bool = False

    @property
    def groups(self) -> int:
        return self.threads * self.cluster

    @property
    def lanes(self) -> int:
        return self.threads * self.vec * self.chunks * self.cluster


def pointwise(extent: int, vec: int, rows: int) -> Config:
    """No reduction: `extent` neighbouring elements, `rows` times. Where rows would leave many threads idle (72 channels, last in
    memory), programs are smaller: those of a CTA are neighbours in memory."""
    accesses = -(-extent // vec)
    threads = min(128, power_of_two(accesses))
    chunks = 2 if vec == 8 and extent * rows >= 1 << 22 and extent >= threads * vec * 2 else 1
    while chunks == 1 and threads > 1 and accesses < FILLED * round_up(accesses, threads):
        threads //= 2
    return Config(threads, vec, chunks, pack=max(128 // threads, 1))


def of_part(config: Config, part: int) -> Config | None:
    """The shape of programs that lie within parts of multiples of `part` neighbours each, so that each computes one part alone;
    None where such a program would be less than a warp, whose threads would wait for each other's parts."""
    threads, chunks = config.threads, config.chunks
    while threads > WARP and part % (threads * config.vec):
        threads //= 2
    if threads < WARP or part == 0 or part % (threads * config.vec):
        return None
    chunks = chunks if part % (threads * config.vec * chunks) == 0 else 1
    return replace(config, threads=threads, chunks=chunks, pack=max(128 // threads, 1))


@dataclass(frozen=True)
class Traffic:
    """What a program without reductions moves for each element of its results.

    item   bytes of the narrowest element among what is large
    widest of the widest
    read   bytes that are read of what is large
    loads  of elements
    runs   large inputs whose elements are read one by one, each at a place that takes a division
    """

    item: int
    widest: int
    read: int
    loads: int
    runs: int = 0

    def narrow(self, vec: int) -> bool:
        """Whether accesses of `vec` elements are narrower than a thread's widest."""
        return vec * self.widest < FULL_ACCESS


def narrow(extent: int, vec: int, rows: int, of: Traffic, sms: int) -> tuple[Config, float]:
    """No reduction, and accesses below FULL_ACCESS, as where rows do not start at multiples of it: neighbouring threads take
    neighbouring accesses, and each has several of a row in flight. The shape of the least cost, and that cost for an element, in
    arbitrary units: lanes past the end of a row, times what waiting for memory adds, times the sectors that threads of a row share
    with those beside them."""
    accesses = -(-extent // vec)
    most_threads = min(128, power_of_two(accesses))
    most_chunks = max(min(NARROW_ELEMENTS, NARROW_LOADS // max(of.loads, 1)) // vec, 1)

    def fits(threads: int, chunks: int) -> bool:
        busy = rows * -(-accesses // (threads * chunks)) * threads >= sms * BUSY
        return chunks == 1 or (busy and (chunks - 1) * threads < accesses)

    def cost(threads: int, chunks: int) -> float:
        waste = round_up(accesses, threads * chunks) / accesses
        waiting = 1 + NARROW_LATENCY / min(chunks * vec * max(of.read, of.item), NARROW_ENOUGH)
        shared = 1 + SECTOR / (2 * min(threads, WARP) * vec * of.item)
        return waste * waiting * shared * (1 + RUN_COST * of.runs)

    shapes = [(t, c) for t in (8, 16, 32, 64, 128) if t <= max(most_threads, 8) for c in range(1, most_chunks + 1)]
    threads, chunks = min((shape for shape in shapes if fits(*shape)), key=lambda s: (round(cost(*s), 2), -s[0], s[1]))
    of_row = min(threads, most_threads)
    return Config(of_row, vec, chunks, pack=max(128 // of_row, 1)), cost(threads, chunks)


def idle(extent: int, vec: int) -> bool:
    """Whether rows of `extent` neighbouring elements, each of its own CTA or part of one, leave a fifth of the threads idle."""
    accesses = -(-extent // vec)
    return accesses < 0.8 * round_up(accesses, min(128, power_of_two(accesses)))


def row_reduction(extent: int, vec: int, rows: int, inputs: int, sms: int, most_ctas: int, item: int = 0) -> Config:
    """Reductions along `extent` neighbouring elements for `rows` rows. inputs: tensors that are read whole; most_ctas: of a cluster
    (1: there are no clusters); item: bytes of an element, of which threads that read a row by narrow accesses take a sector at a
    time together (0: it does not matter)."""
    threads = power_of_two(-(-extent // REGISTER_ELEMENTS))
    if 0 < vec * item < FULL_ACCESS:
        threads = max(threads, SECTOR // (vec * item))
    while threads * vec < extent and rows * threads < sms * BUSY and threads < 256:
        threads *= 2
    threads = min(threads, MOST_THREADS, power_of_two(-(-extent // vec)))
    chunks = max(-(-extent // (threads * vec)), 1)
    if chunks * vec > REGISTER_ELEMENTS:
        cluster = power_of_two(-(-extent // (threads * REGISTER_ELEMENTS)))
        if cluster <= most_ctas and extent >= 4 * threads * vec:
            chunks = -(-extent // (threads * vec * cluster))
            resident = 2 if inputs == 1 or chunks * vec <= SHARED_ELEMENTS else 0
            return Config(threads, vec, chunks, cluster=cluster, resident=resident)
    if chunks * vec > 2 * REGISTER_ELEMENTS:
        chunks = max(16 // vec, 1)  # does not fit in registers: loops over the row
    return Config(threads, vec, chunks, pack=max(128 // threads, 1) if threads <= WARP else 1)


def row_walk(extent: int, vec: int) -> Config:
    """One walk over rows that nothing needs again: enough accesses in flight, no row in registers."""
    threads = min(WALK_THREADS, power_of_two(-(-extent // (vec * WALK_CHUNKS))))
    threads = max(threads, min(WARP, power_of_two(-(-extent // vec))))
    chunks = max(min(WALK_CHUNKS, -(-extent // (threads * vec))), 1)
    return Config(threads, vec, chunks, pack=max(128 // threads, 1) if threads <= WARP else 1)


def column_reduction(extent: int, vec: int, reduced: int, rows: int, sms: int) -> Config:
    """Reductions over `reduced` rows, `rows` times: every thread sums columns of its own, and teams share the rows. A CTA has fewer
    columns where few CTAs would have much to do (an image's channels, last in memory), or rows for more teams (partial sums)."""
    little = rows * extent * reduced < LITTLE
    least = PAIR if little else max(COLUMNS // vec, 1)

    def narrower(threads: int) -> bool:
        few = rows * -(-extent // (threads * vec)) * COLUMN_THREADS < sms * BUSY // 2
        return few and (not little or reduced >= COLUMN_ROWS * COLUMN_THREADS // (threads // 2))

    threads = min(WARP, power_of_two(-(-extent // vec)))
    while threads > least and narrower(threads):
        threads //= 2
    teams = min(COLUMN_THREADS // threads, power_of_two(max(reduced // COLUMN_ROWS, 1)))
    return Config(threads, vec, 1, teams=teams)


def column_scan(extent: int) -> Config:
    """Steps down columns that depend on each other: every thread has a column of its own."""
    return Config(min(WARP, power_of_two(extent)), 1, 1)


def strip(columns: int) -> int | None:
    """Columns of a strip, where rows have enough: the most that divide a row, as was measured, where these are not few. Else so
    many that strips read few pixels twice, and compute few columns twice, where the last begins before the one before it ends."""
    lengths = range(SHORTEST_STRIP, min(columns, LONGEST_STRIP) + 1)
    if (whole := max((n for n in lengths if columns % n == 0), default=0)) >= LONGEST_STRIP // 2:
        return whole
    return min(lengths, key=lambda n: (-(-columns // n) * (n + SHARED_COLUMNS), columns % n, -n), default=None)


def strip_width(length: int) -> int:
    """Channels of a thread, at most. Where images are so small that strips are short, there are few threads, and more are worth
    more than wide accesses."""
    return 4 if 2 * length > LONGEST_STRIP else 2


def group_resident(length: int) -> int:
    """Threads that an SM should hold, of those that have GROUP_WIDTH features of a group for so many columns: there are registers
    for no more."""
    return 3 * STRIP_THREADS // 2 if 2 * length > LONGEST_STRIP else 2 * STRIP_THREADS


def strip_chunk(channels: int, weights: int) -> int:
    """Of so many channels of a group, how many are read together: a power of two that divides them. weights: of one, that a thread
    holds."""
    return max(n for n in (1, 2, 4) if channels % n == 0 and (n == 1 or n * weights <= STRIP_WEIGHTS))


def strips(channels: int, vec: int, window: int, threads: int = 2 * STRIP_THREADS) -> tuple[Config, int]:
    """Sums over windows of so many elements, for `channels` neighbouring elements. threads: that an SM should hold at a time. The
    second: how many programs share the columns of a strip, one beside the other."""
    accesses = channels // vec
    wanted = STRIP_CHANNELS // vec
    neighbours = min((n for n in range(1, accesses + 1) if accesses % n == 0), key=lambda n: abs(n - wanted))
    together = neighbours & -neighbours
    cta = STRIP_THREADS // 2 if window > LARGE_WINDOW or threads % STRIP_THREADS else STRIP_THREADS
    return Config(together, vec, 1, pack=cta // together, resident=threads // cta), neighbours // together


def squares(vec: int) -> Config:
    """Reads across the vector axis: squares of SQUARE lanes, by rows of them shared among the threads."""
    return Config(threads=SQUARE // vec, vec=vec, chunks=1, teams=vec * SQUARE_THREADS // SQUARE)


def scalar() -> Config:
    """Programs without a vector axis: every thread computes the same, one stores."""
    return Config(WARP, 1, 1)


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least `n`."""
    return 1 << max(n - 1, 0).bit_length()


def round_up(n: int, step: int) -> int:
    return -(-n // step) * step
