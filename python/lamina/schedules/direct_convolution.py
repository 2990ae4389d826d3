"""Schedules of direct convolutions on NVIDIA GPUs: the columns, channels and threads of the strips that programs compute."""

from .nvvm import NvvmConfig

SHARED_COLUMNS = 2  # pixels of a row that a strip reads beyond its own: for windows of three columns
LONGEST_STRIP, SHORTEST_STRIP = 14, 4  # columns of one thread of a direct convolution: its strip
GROUP_WIDTH = 4  # features of one thread of a grouped convolution, which reuses each pixel that it reads for all of them
STRIP_WEIGHTS = 48  # elements of the weight that such a thread holds
STRIP_PIXELS = 32  # pixels of an image row that such a thread reads at most: more do not fit in registers
STRIP_CHANNELS = 32  # adjacent channels that such threads read: whole sectors
STRIP_THREADS = 256  # of a CTA of such threads, which reads the rows that its windows share only once
LARGE_WINDOW = 25  # elements of a window above which smaller CTAs balance the load better


def strip_columns(columns: int) -> int | None:
    """Returns the columns of a strip of a direct convolution; None for rows that are too short.

    This is the largest divisor of a row if it is at least half of LONGEST_STRIP, which was measured to be enough. Otherwise the
    last strip of a row overlaps the one before it: the length that reads the fewest pixels and computes the fewest columns twice.
    """
    lengths = range(SHORTEST_STRIP, min(columns, LONGEST_STRIP) + 1)
    if (whole := max((n for n in lengths if columns % n == 0), default=0)) >= LONGEST_STRIP // 2:
        return whole
    return min(lengths, key=lambda n: (-(-columns // n) * (n + SHARED_COLUMNS), columns % n, -n), default=None)


def fits_registers(length: int, across: int, step: int, spread: int) -> bool:
    """Returns whether a thread can hold the pixels of a row that `length` windows of `across` columns read. step, spread: the
    distances between windows, and between the columns of a window."""
    return len({j * step + k * spread for j in range(length) for k in range(across)}) <= STRIP_PIXELS


def channels_per_thread(length: int) -> int:
    """Returns the most channels of a thread in a direct convolution. Small images have short strips and few threads: for them
    more threads are worth more than wide accesses."""
    return 4 if 2 * length > LONGEST_STRIP else 2


def group_resident(length: int) -> int:
    """Returns the threads that an SM should hold where each computes GROUP_WIDTH features of a group for `length` columns:
    registers limit them."""
    return 3 * STRIP_THREADS // 2 if 2 * length > LONGEST_STRIP else 2 * STRIP_THREADS


def channels_per_chunk(channels: int, weights: int) -> int:
    """Returns how many of the channels of a group are read together: a power of two that divides them. weights: elements of the
    weight that a thread holds for each channel."""
    return max(n for n in (1, 2, 4) if channels % n == 0 and (n == 1 or n * weights <= STRIP_WEIGHTS))


def schedule(channels: int, vec: int, window: int, threads: int = 2 * STRIP_THREADS) -> tuple[NvvmConfig, int]:
    """Returns the schedule of a direct convolution with windows of `window` elements over `channels` contiguous channels, and how
    many adjacent programs share the columns of a strip. threads: threads that an SM should hold at a time."""
    accesses = channels // vec
    wanted = STRIP_CHANNELS // vec
    neighbors = min((n for n in range(1, accesses + 1) if accesses % n == 0), key=lambda n: abs(n - wanted))
    together = neighbors & -neighbors
    cta = STRIP_THREADS // 2 if window > LARGE_WINDOW or threads % STRIP_THREADS else STRIP_THREADS
    return NvvmConfig(together, vec, 1, pack=cta // together, resident=threads // cta), neighbors // together
