"""Measures the seconds of each stage of a compilation."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """A stopwatch: `with clock.stage("name"): ...` adds the block's time to `seconds`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Adds the time of its block to a stage."""
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
