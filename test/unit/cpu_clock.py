"""Times candidates on the CPU, for tests of tuning without a GPU."""

import time
from collections.abc import Callable

from lamina.tune.clocks import mean_seconds


class CpuClock:
    """Times calls that return when they are done; implements lamina.tune.clocks.Clock."""

    def seconds(self, run: Callable[[], object]) -> float:
        return mean_seconds(run)

    def wait(self) -> None:
        pass

    def alive(self) -> bool:
        return True

    def now(self) -> float:
        return time.perf_counter()
