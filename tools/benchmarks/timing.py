"""Times contestants so that their times can be compared on a machine that is not quiet."""

import statistics
import time
from collections.abc import Callable, Mapping

from lamina.tune.clocks import taken


def interleaved(
    runs: Mapping[str, Callable[[], object]],
    *,
    budget: float = 2.0,
    rounds: int = 7,
    batch: float = 2e-4,
    most: int = 1000,
    wait: Callable[[], object] = lambda: None,
) -> dict[str, float]:
    """Returns median seconds of a call by name, from interleaved calls (ABCABC...), so that what disturbs one disturbs all.

    Takes at least `rounds` rounds, and more for up to `budget` seconds in total. What takes less than `batch` seconds is called
    up to `most` times in a round, and `wait` then waits for the device.
    """
    calls = {}
    for name, run in runs.items():
        run()
        calls[name] = max(1, min(most, int(batch / max(taken(run, 1, wait), 1e-7))))
    found: dict[str, list[float]] = {name: [] for name in runs}
    start = time.perf_counter()
    while len(next(iter(found.values()))) < rounds or time.perf_counter() - start < budget:
        for name, run in runs.items():
            found[name].append(taken(run, calls[name], wait))
    return {name: statistics.median(times) for name, times in found.items()}
