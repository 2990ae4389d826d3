"""Times that can be compared on a machine that is not quiet."""

import statistics
import time
from collections.abc import Callable, Mapping


def seconds(run: Callable[[], object], calls: int = 1) -> float:
    """Seconds of one of `calls` calls in a row."""
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def interleaved(runs: Mapping[str, Callable[[], object]], *, budget: float = 2.0, rounds: int = 7) -> dict[str, float]:
    """Median seconds of a call of each, called in turns (ABCABC...), so that what disturbs one disturbs all.

    At least `rounds` rounds, and more while they take less than `budget` seconds together. What takes microseconds is called
    several times a turn.
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
