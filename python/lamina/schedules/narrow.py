"""Schedules of pointwise kernels on NVIDIA GPUs whose accesses are narrower than a thread's widest."""

from dataclasses import dataclass

from .base import power_of_two
from .nvvm import BUSY, FULL_ACCESS, SECTOR, WALK_CHUNKS, WARP, NvvmConfig, round_up

NARROW_LATENCY = 8  # bytes in flight per thread at which latency and transfer take equally long
NARROW_ENOUGH = 32  # bytes in flight per thread from which on more hide no latency
NARROW_ELEMENTS = 24  # elements of a thread at most: longer programs do not fit in the instruction cache
NARROW_LOADS = 48  # registers of a thread for loads in flight
START = 0.03  # cost of starting a thread for each of its loads: with many, instructions take longer than the transfer
TIE = 1.01  # costs that are no more apart count as equal: then rows are shared by more threads, and in fewer steps
RUN_COST = 0.3  # cost of an element whose address takes a division, relative to one whose address takes none


@dataclass(frozen=True)
class Traffic:
    """The memory traffic of a pointwise program, per element of its results.

    item   bytes of the narrowest element among the large operands and results
    widest bytes of the widest
    read   bytes that are read of large operands
    loads  number of loads
    runs   large inputs that are read element by element, at addresses that take a division each
    """

    item: int
    widest: int
    read: int
    loads: int
    runs: int = 0

    def narrow(self, vec: int) -> bool:
        """Returns whether accesses of `vec` elements are narrower than a thread's widest."""
        return vec * self.widest < FULL_ACCESS


def narrow_accesses(extent: int, vec: int, rows: int, traffic: Traffic, sms: int) -> tuple[NvvmConfig, float]:
    """Returns the cheapest schedule of a pointwise kernel with accesses below FULL_ACCESS, as where rows do not start at multiples
    of it, and its cost per element in arbitrary units.

    Adjacent threads make adjacent accesses, and each has several of a row in flight. The cost is the waste of lanes past the end of
    a row, times the share of exposed memory latency, times the sectors that the threads of a row share with their neighbors; and
    the start of each thread, which computes its place.
    """
    accesses = -(-extent // vec)
    most_threads = min(128, power_of_two(accesses))

    def fits(threads: int, chunks: int) -> bool:
        """Returns whether the threads fill the GPU, and none of their chunks is empty."""
        busy = rows * -(-accesses // (threads * chunks)) * threads >= sms * BUSY
        return chunks == 1 or (busy and (chunks - 1) * threads < accesses)

    def cost(threads: int, chunks: int) -> float:
        """Returns the relative time of a schedule, with that of idle lanes."""
        moving = round_up(accesses, threads * chunks) / accesses * _transfer(vec, threads, chunks, traffic)
        return moving + _start(vec, chunks, traffic)

    shapes = [(t, c) for t in (8, 16, 32, 64, 128) if t <= max(most_threads, 8) for c in range(1, _narrow_chunks(vec, traffic) + 1)]
    costs = {shape: cost(*shape) for shape in shapes if fits(*shape)}
    near = [shape for shape, each in costs.items() if each <= TIE * min(costs.values())]
    threads, chunks = min(near, key=lambda s: (-s[0], s[1]))
    of_row = min(threads, most_threads)
    return NvvmConfig(of_row, vec, chunks, pack=max(128 // of_row, 1)), costs[threads, chunks]


def narrow_of_any(vec: int, traffic: Traffic) -> tuple[NvvmConfig, float]:
    """Returns the same where a call decides how long rows are: a warp to a row, which reads whole sectors, each thread in a few
    accesses. What a longer row takes at once would be idle in a short one."""
    chunks = min(_narrow_chunks(vec, traffic), WALK_CHUNKS)
    cost = _transfer(vec, WARP, chunks, traffic) + _start(vec, chunks, traffic)
    return NvvmConfig(WARP, vec, chunks, pack=128 // WARP), cost


def _narrow_chunks(vec: int, traffic: Traffic) -> int:
    """Returns how many narrow accesses a thread may make, by its registers and the length of its code."""
    return max(min(NARROW_ELEMENTS, NARROW_LOADS // max(traffic.loads, 1)) // vec, 1)


def _transfer(vec: int, threads: int, chunks: int, traffic: Traffic) -> float:
    """Returns the relative time of an element: latency, partly read sectors and divisions."""
    waiting = 1 + NARROW_LATENCY / min(chunks * vec * max(traffic.read, traffic.item), NARROW_ENOUGH)
    shared = 1 + SECTOR / (2 * min(threads, WARP) * vec * traffic.item)
    return waiting * shared * (1 + RUN_COST * traffic.runs)


def _start(vec: int, chunks: int, traffic: Traffic) -> float:
    """Returns an element's share of the time to start a thread."""
    return START * traffic.loads / (chunks * vec)
