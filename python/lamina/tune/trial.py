"""Compiles candidates, checks them against each other and times them."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
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
    """The results of trying some candidates; filled in step by step, so that results outlive an error.

    seconds, noise  as in Measured
    dropped         reason, by candidate
    """

    seconds: dict[str, float] = field(default_factory=dict)
    noise: float = 0.0
    dropped: dict[str, str] = field(default_factory=dict)

    @property
    def measured(self) -> Measured:
        """The times of the candidates that were not dropped."""
        return Measured({name: s for name, s in self.seconds.items() if name not in self.dropped}, self.noise)


def attempt(
    trial: Trial, names: Sequence[str], reference: str, make: Make, mark: Marking, clock: Clock, *, budget: float, watch: Watch
) -> None:
    """Compiles, checks and times the candidates called `names`, within `budget` seconds for the timing.

    reference  of these, the one whose results the others' are compared with; if it fails, the first that runs
    mark       entered around the first run of each

    Raises DeviceLost if a candidate loses the device.
    """
    ready = _compiled(trial, names, make, watch)
    order = sorted(ready, key=lambda name: (name != reference, names.index(name)))
    right = _checked(trial, {name: ready[name] for name in order}, mark, clock, watch)
    runs = {name: ready[name].run for name in names if name in right}
    found = measure(runs, clock, budget=budget if len(runs) > 1 else 0.0, tick=lambda share: watch("timing", share))
    trial.seconds |= found.seconds
    trial.noise = max(trial.noise, found.noise)
    trial.dropped |= found.failed


def _compiled(trial: Trial, names: Sequence[str], make: Make, watch: Watch) -> dict[str, Candidate]:
    """Returns the candidates that compile, several at a time."""
    ready: dict[str, Candidate] = {}
    pool = ThreadPoolExecutor(max_workers=max(1, min(len(names), host().cores)))
    try:
        started = {pool.submit(_compile, make, name): name for name in names}
        for done, _ in enumerate(as_completed(started), 1):
            watch("compiling", done / len(names))
        for future, name in started.items():
            try:
                ready[name] = future.result()
            except Exception as error:
                trial.dropped[name] = f"does not compile: {one_line(error)}"
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # an interrupt does not wait for those that have not begun
    return ready


def _compile(make: Make, name: str) -> Candidate:
    candidate = make(name)
    candidate.compile()
    return candidate


def _checked(trial: Trial, candidates: Mapping[str, Candidate], mark: Marking, clock: Clock, watch: Watch) -> set[str]:
    """Returns the candidates that run and compute the same as the first that runs."""
    right: set[str] = set()
    expected: list[Tensor] | None = None
    for done, (name, candidate) in enumerate(candidates.items(), 1):
        try:
            with mark(name):
                results = run_guarded(name, clock, lambda candidate=candidate: _run(candidate, clock))  # type: ignore[misc]
            if expected is None:
                expected = check.copies_of(results)
            elif wrong := check.difference(results, expected):
                trial.dropped[name] = f"wrong numbers: {wrong}"
            check.overwrite(results)
        except Failed as error:
            trial.dropped[name] = error.reason
        if name not in trial.dropped:
            right.add(name)
        watch("checking", done / len(candidates))
    return right


def _run(candidate: Candidate, clock: Clock) -> Sequence[Tensor]:
    results = candidate.run()
    clock.wait()
    return results
