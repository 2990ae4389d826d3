"""Times contestants in turns (ABCABC...), so that what disturbs one disturbs all and the times can be compared.

On a CPU, and for what a caller of a GPU sees, `interleaved` reads the wall clock. `call_by_call` reads events of the GPU.
"""

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch

from lamina.tune.clocks import mean_seconds, one_line

COPY_BYTES = 2 << 30  # of one tensor; the copy moves twice as much
MATRIX = 8192
_FEWEST, _MOST = 15, 300  # rounds of call_by_call
_WARMING = 5  # of those rounds, the first fifth warms up the device
_ROOF_SECONDS = 0.1  # for one roof

Run = Callable[[], object]
Sampler = Callable[[], Sequence[float]]
"""Seconds of each of a few calls."""
Timed = tuple[dict[str, float], dict[str, str]]
"""Median seconds of a call by contestant, and the reason for each contestant that failed."""


def in_turns(samplers: Mapping[str, Sampler], rounds: int, budget: float = 0.0) -> Timed:
    """Samples in turns, for `rounds` rounds and, if that takes less than `budget` seconds, for more."""
    found: dict[str, list[float]] = {name: [] for name in samplers}
    failed: dict[str, str] = {}
    start = time.perf_counter()
    while rounds > 0 or time.perf_counter() - start < budget:
        rounds -= 1
        for name, sample in samplers.items():
            if name not in failed:
                try:
                    found[name] += sample()
                except Exception as error:
                    failed[name] = one_line(error)
    return {name: statistics.median(times) for name, times in found.items() if name not in failed}, failed


def interleaved(
    runs: Mapping[str, Run],
    *,
    budget: float = 2.0,
    rounds: int = 7,
    batch: float = 2e-4,
    most: int = 1000,
    wait: Run = lambda: None,
) -> Timed:
    """Times calls by the wall clock, in turns, for at least `rounds` rounds and about `budget` seconds in total.

    What takes less than `batch` seconds is called up to `most` times in a round, and `wait` then waits for the device.
    """

    def sampler(run: Run) -> Sampler:
        """Returns a function that times a batch of calls."""
        run()
        calls = max(1, int(min(most, batch / max(mean_seconds(run, 1, wait), 1e-7))))
        return lambda: [mean_seconds(run, calls, wait)]

    return in_turns({name: sampler(run) for name, run in runs.items()}, rounds, budget)


def flusher() -> Run:
    """Returns a function that flushes the GPU's second-level cache by one kernel."""
    import triton

    driver = triton.runtime.driver.active
    cache = driver.get_empty_cache_for_benchmark()
    return lambda: driver.clear_cache(cache)


def call_by_call(runs: Mapping[str, Run], seconds: float) -> Timed:
    """Times one call of each per round, in a new order each round, for about `seconds`, by events with the cache flushed before.

    A busy GPU is throttled by its power limit, so that whatever runs after a pause has a higher clock. Here the device has no
    pauses, and the power that one contestant takes slows all alike. The first rounds, in which the device warms up, do not count.
    """
    flush, shuffle = flusher(), random.Random(0).shuffle
    times: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {name: [] for name in runs}
    failed: dict[str, str] = {}

    def turn() -> None:
        """Times each contender once, in random order."""
        names = [name for name in runs if name not in failed]
        shuffle(names)
        for name in names:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flush()
            begin.record()
            try:
                runs[name]()
            except Exception as error:
                failed[name] = one_line(error)
            end.record()
            times[name].append((begin, end))

    turn()
    once = mean_seconds(turn, 1, torch.cuda.synchronize)
    for _ in range(max(_FEWEST, min(_MOST, int(seconds / once)))):
        turn()
    torch.cuda.synchronize()
    found = {name: [begin.elapsed_time(end) * 1e-3 for begin, end in pairs] for name, pairs in times.items() if name not in failed}
    return {name: statistics.median(each[len(each) // _WARMING :]) for name, each in found.items()}, failed


def copy_bandwidth() -> float:
    """Measures bytes per second, read and written, of a copy within the GPU's memory."""
    x = torch.zeros(COPY_BYTES, dtype=torch.uint8, device="cuda")
    out = torch.empty_like(x)
    return 2 * COPY_BYTES / _seconds(lambda: out.copy_(x))


def matmul_rate() -> float:
    """Measures operations per second of cuBLAS's bf16 product of square matrices; a multiply-add counts as two."""
    a, b = (torch.randn(MATRIX, MATRIX, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return 2 * MATRIX**3 / _seconds(lambda: a @ b)


def _seconds(run: Run) -> float:
    times, failed = call_by_call({"": run}, _ROOF_SECONDS)
    if failed:
        raise RuntimeError(failed[""])
    return times[""]
