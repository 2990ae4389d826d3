"""Seconds of the stages of a compilation."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """`with clock.stage("name"): ...` adds what it took to `seconds`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
