"""Compiles candidates, checks them against each other and times them."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from torch import Tensor

from lamina.core.device import host

from . import check
from .clocks import Clock, Failed, one_line, run_guarded
from .measure import Measured, measure

Watch = Callable[[str, float], None]
"""Called with the stage ("compiling", "checking", "timing") and its progress, 0 to 1."""


class Candidate(Protocol):
    """One implementation of an op with its fused surroundings, on inputs that it was made with."""

    def compile(self) -> object:
        """Makes the candidate ready to run; called once, in a thread of a pool, where torch has its defaults. An exception drops
        the candidate."""
        ...

    def run(self) -> Sequence[Tensor]:
        """Computes once. The results lie in memory that is neither an input's nor read by the next run, which writes all of it."""
        ...


Make = Callable[[str], Candidate]
"""Creates a candidate by its name, in a thread of the pool. Random inputs come from a generator of their own: the user's random
numbers must not change."""

Marking = Callable[[str], AbstractContextManager[None]]


@dataclass
class Trial:
    """Some candidates being tried; the results are filled in step by step, so that they outlive an error.

    make            creates a candidate by its name
    mark            entered around the first run of each
    clock           of the device that they run on
    watch           is told the progress
    dropped         why a candidate cannot be used, by name
    seconds, noise  as in Measured
    """

    make: Make
    mark: Marking
    clock: Clock
    watch: Watch
    dropped: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    noise: float = 0.0

    @property
    def measured(self) -> Measured:
        """The times of the candidates that were not dropped."""
        return Measured({name: s for name, s in self.seconds.items() if name not in self.dropped}, self.noise)

    def attempt(self, names: Sequence[str], reference: str, budget: float) -> None:
        """Compiles, checks and times the candidates called `names`, within `budget` seconds for the timing.

        reference  of these, the one whose results the others' are compared with; if it fails, the first that runs

        Raises DeviceLost if a candidate loses the device.
        """
        ready = self._compiled(names)
        order = sorted(ready, key=lambda name: (name != reference, names.index(name)))
        right = self._checked({name: ready[name] for name in order})
        runs = {name: ready[name].run for name in names if name in right}
        found = measure(runs, self.clock, budget=budget if len(runs) > 1 else 0.0, tick=lambda share: self.watch("timing", share))
        self.seconds |= found.seconds
        self.noise = max(self.noise, found.noise)
        self.dropped |= found.failed

    def _compiled(self, names: Sequence[str]) -> dict[str, Candidate]:
        """Returns the candidates that compile, several at a time."""
        ready: dict[str, Candidate] = {}
        pool = ThreadPoolExecutor(max_workers=max(1, min(len(names), host().cores)))
        try:
            started = {pool.submit(_compile, self.make, name): name for name in names}
            for done, _ in enumerate(as_completed(started), 1):
                self.watch("compiling", done / len(names))
            for future, name in started.items():
                try:
                    ready[name] = future.result()
                except Exception as error:
                    self.dropped[name] = f"does not compile: {one_line(error)}"
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # an interrupt does not wait for those that have not begun
        return ready

    def _checked(self, candidates: Mapping[str, Candidate]) -> set[str]:
        """Returns the candidates that run and compute the same as the first that runs."""
        right: set[str] = set()
        expected: list[Tensor] | None = None
        for done, (name, candidate) in enumerate(candidates.items(), 1):
            try:
                with self.mark(name):
                    results = run_guarded(name, self.clock, partial(_run, candidate, self.clock))
                if expected is None:
                    expected = check.copies_of(results)
                elif wrong := check.difference(results, expected):
                    self.dropped[name] = f"wrong numbers: {wrong}"
                check.overwrite(results)
            except Failed as error:
                self.dropped[name] = error.reason
            if name not in self.dropped:
                right.add(name)
            self.watch("checking", done / len(candidates))
        return right


def _compile(make: Make, name: str) -> Candidate:
    candidate = make(name)
    candidate.compile()
    return candidate


def _run(candidate: Candidate, clock: Clock) -> Sequence[Tensor]:
    results = candidate.run()
    clock.wait()
    return results
