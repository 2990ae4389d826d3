"""Timers whose results can be compared on a machine that is not quiet."""

import statistics
import time
from collections.abc import Callable, Mapping


def seconds(run: Callable[[], object], calls: int = 1) -> float:
    """Returns the mean seconds of a call, over `calls` calls in a row."""
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def interleaved(runs: Mapping[str, Callable[[], object]], *, budget: float = 2.0, rounds: int = 7) -> dict[str, float]:
    """Returns median seconds of a call by name, from interleaved calls (ABCABC...), so that what disturbs one disturbs all.

    Takes at least `rounds` rounds, and more for up to `budget` seconds in total. What takes microseconds is called several times in
    a round.
    """
    calls = {}
    for name, run in runs.items():
        run()
        calls[name] = max(1, min(1000, int(2e-4 / max(seconds(run), 1e-7))))
    found: dict[str, list[float]] = {name: [] for name in runs}
    start = time.perf_counter()
    while len(next(iter(found.values()))) < rounds or time.perf_counter() - start < budget:
        for name, run in runs.items():
            found[name].append(seconds(run, calls[name]))
    return {name: statistics.median(times) for name, times in found.items()}
