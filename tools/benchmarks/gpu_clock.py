"""GPU timers, by events around calls with the L2 cache flushed before each, and the measured roofs."""

import random
import statistics
from collections.abc import Callable, Mapping, Sequence

import torch
import triton

from lamina.tune.clocks import one_line, taken

COPY_BYTES = 2 << 30  # of one tensor; the copy moves twice as much
MATRIX = 8192
_FEWEST, _MOST = 15, 300  # rounds of call_by_call
_WARMING = 5  # of those rounds, the first fifth warms up the device

Sampler = Callable[[], Sequence[float]]
"""Seconds of each of a few calls."""


def samples(run: Callable[[], object], milliseconds: float) -> list[float]:
    """Returns seconds of each call, for as many calls as take about `milliseconds` in total, by triton's do_bench."""
    times = triton.testing.do_bench(run, warmup=milliseconds / 5, rep=milliseconds, return_mode="all")
    return [t * 1e-3 for t in times]


def flusher() -> Callable[[], object]:
    """Returns the function with which samples() flushes the cache; it launches one kernel."""
    driver = triton.runtime.driver.active
    cache = driver.get_empty_cache_for_benchmark()
    return lambda: driver.clear_cache(cache)


def in_turns(samplers: Mapping[str, Sampler], rounds: int) -> tuple[dict[str, float], dict[str, str]]:
    """Returns median seconds by name, sampled round-robin (ABCABC...), and by name the reason of those that failed."""
    found: dict[str, list[float]] = {name: [] for name in samplers}
    failed: dict[str, str] = {}
    for _ in range(rounds):
        for name, sample in samplers.items():
            if name not in failed:
                try:
                    found[name] += sample()
                except Exception as error:
                    failed[name] = one_line(error)
    return {name: statistics.median(times) for name, times in found.items() if times and name not in failed}, failed


def call_by_call(runs: Mapping[str, Callable[[], object]], seconds: float) -> tuple[dict[str, float], dict[str, str]]:
    """Measures as in_turns does, but one call of each per round, in a new order each round, for about `seconds`.

    A busy GPU is throttled by its power limit, so that whatever runs after a pause has a higher clock. Here the device has no
    pauses, and the power that one contestant takes slows all alike. The first rounds, in which the device warms up, do not count.
    """
    flush, shuffle = flusher(), random.Random(0).shuffle
    times: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {name: [] for name in runs}
    failed: dict[str, str] = {}

    def turn() -> None:
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
    once = taken(turn, 1, torch.cuda.synchronize)
    for _ in range(max(_FEWEST, min(_MOST, int(seconds / once)))):
        turn()
    torch.cuda.synchronize()
    found = {name: [begin.elapsed_time(end) * 1e-3 for begin, end in pairs] for name, pairs in times.items() if name not in failed}
    return {name: statistics.median(each[len(each) // _WARMING :]) for name, each in found.items()}, failed


def copy_bandwidth() -> float:
    """Measures bytes per second, read and written, of a copy within the device's memory."""
    x = torch.zeros(COPY_BYTES, dtype=torch.uint8, device="cuda")
    out = torch.empty_like(x)
    return 2 * COPY_BYTES / statistics.median(samples(lambda: out.copy_(x), 40))


def matmul_rate() -> float:
    """Measures operations per second of cuBLAS's bf16 product of square matrices; a multiply-add counts as two."""
    a, b = (torch.randn(MATRIX, MATRIX, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return 2 * MATRIX**3 / statistics.median(samples(lambda: a @ b, 40))
