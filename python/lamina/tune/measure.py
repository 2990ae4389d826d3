"""Times candidates so that they can be compared, and chooses between them."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from .clocks import Clock, Failed, run_guarded

MARGIN = 0.01  # smaller differences are ignored, however quiet the machine
_CLEARLY_SLOWER = 2.0
_FEWEST, _MOST = 5, 100  # rounds
_NEARLY = 0.99  # the most progress that is reported before the last round
_UNTIL_DROPPED = 2  # rounds


@dataclass(frozen=True)
class Measured:
    """Times of candidates.

    seconds  median of each candidate that ran to the end, or until it was clearly slower
    noise    relative difference of a candidate from itself, between its odd and even runs: 0.02 is 2%
    failed   reason, by candidate that failed while it was timed
    """

    seconds: dict[str, float]
    noise: float = 0.0
    failed: dict[str, str] = field(default_factory=dict)


def measure(
    runs: Mapping[str, Callable[[], object]], clock: Clock, *, budget: float, tick: Callable[[float], None] = lambda _: None
) -> Measured:
    """Times calls in interleaved rounds (ABCABC...), so that a disturbance affects all, until `budget` seconds or 100 rounds have
    passed, but at least 5 rounds. Candidates whose least time is over twice the best are left out after two rounds. Medians ignore
    outliers.

    `tick` is told the progress: 0 before the first call, 1 after the last. Raises DeviceLost if a candidate loses the device.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    failed: dict[str, str] = {}
    tick(0.0)  # a caller that must measure alone waits in here for others
    running, start, rounds = list(runs), clock.now(), 0
    while running and rounds < _MOST and (rounds < _FEWEST or clock.now() - start < budget):
        tick(min(_NEARLY, max(rounds / _MOST, (clock.now() - start) / max(budget, 1e-9))))
        for name in running:
            try:
                times[name].append(run_guarded(name, clock, lambda name=name: clock.seconds(runs[name])))  # type: ignore[misc]
            except Failed as error:
                failed[name] = error.reason
        rounds += 1
        running = _still_running([name for name in running if name not in failed], times, rounds)
    tick(1.0)
    seconds = {name: statistics.median(taken) for name, taken in times.items() if taken and name not in failed}
    return Measured(seconds, _noise([times[name] for name in running]), failed)


def choose(order: Sequence[str], measured: Measured, incumbent: str = "") -> str:
    """Returns the candidate to use, of those in `order` that were measured; "" if none was.

    Times that differ by less than the noise, or 1%, are equal. Among equals the incumbent stays; without one the earliest in the
    order is chosen, so that choosing again changes nothing.
    """
    seconds = measured.seconds
    if not seconds:
        return ""
    bound = min(seconds.values()) * (1 + max(MARGIN, measured.noise))
    good = [name for name in order if name in seconds and seconds[name] <= bound]
    return incumbent if incumbent in good else good[0]


def _still_running(running: list[str], times: Mapping[str, Sequence[float]], rounds: int) -> list[str]:
    """Returns the candidates that are not clearly slower than the best, by least times, as only the candidate itself makes these
    long."""
    if rounds < _UNTIL_DROPPED or not running:
        return running
    best = min(min(times[name]) for name in running)
    return [name for name in running if min(times[name]) <= _CLEARLY_SLOWER * best]


def _noise(times: Sequence[Sequence[float]]) -> float:
    """Returns the relative difference between the medians of odd and even runs, for the median candidate."""
    halves = [(statistics.median(taken[0::2]), statistics.median(taken[1::2])) for taken in times if len(taken) > 1]
    return statistics.median(abs(a - b) / max(min(a, b), 1e-12) for a, b in halves) if halves else 0.0
