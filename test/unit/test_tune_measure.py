"""Tests the timing of candidates, with a clock that returns given times, the comparison of their results, and the clocks."""

import time
from collections.abc import Callable, Iterator
from itertools import chain, cycle, repeat

import pytest
import torch
from torch import Tensor

from lamina.tune.check import copies_of, difference, overwrite
from lamina.tune.clocks import DeviceLost, Failed, mean_seconds, run_guarded
from lamina.tune.measure import Measured, choose, measure


class FakeClock:
    """A clock whose runs take the seconds that they return; after `dies` the device is lost."""

    def __init__(self) -> None:
        self.time = 0.0
        self.order: list[str] = []
        self.dead = False

    def seconds(self, run: Callable[[], object]) -> float:
        taken = run()
        assert isinstance(taken, float)
        self.time += taken
        return taken

    def wait(self) -> None:
        pass

    def alive(self) -> bool:
        return not self.dead

    def now(self) -> float:
        return self.time

    def taking(self, name: str, times: Iterator[float]) -> Callable[[], float]:
        def run() -> float:
            self.order.append(name)
            return next(times)

        return run

    def failing(self, error: Exception, after: int = 0, dies: bool = False) -> Callable[[], float]:
        left = iter(range(after))

        def run() -> float:
            if next(left, None) is not None:
                return 1.0
            self.dead = dies
            raise error

        return run


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_candidates_take_turns(clock: FakeClock) -> None:
    found = measure({name: clock.taking(name, repeat(1.0)) for name in "abc"}, clock, budget=1e-6)
    assert "".join(clock.order) == "abc" * 5
    assert found == Measured({"a": 1.0, "b": 1.0, "c": 1.0})


def test_rounds_end_with_the_budget_and_at_a_hundred(clock: FakeClock) -> None:
    shares: list[float] = []
    measure({"a": clock.taking("a", repeat(1.0))}, clock, budget=20.0, tick=shares.append)
    assert clock.time == 20.0 and shares == [0.0, *(n / 20 for n in range(21))]
    clock.order.clear()
    measure({"a": clock.taking("a", repeat(1e-9))}, clock, budget=20.0)
    assert len(clock.order) == 100


def test_whoever_waits_before_the_first_round_has_the_whole_budget(clock: FakeClock) -> None:
    """Only the end of tuning is reported as the end, however long a round takes."""
    shares: list[float] = []

    def tick(share: float) -> None:
        if not shares:
            clock.time += 100.0
        shares.append(share)

    measure({"a": clock.taking("a", repeat(3.0))}, clock, budget=20.0, tick=tick)
    assert len(clock.order) == 7 and shares[-1] == 1.0 and max(shares[:-1]) < 1.0
    shares.clear()
    measure({"a": clock.taking("a", repeat(30.0))}, clock, budget=20.0, tick=tick)
    assert shares[-1] == 1.0 and max(shares[:-1]) < 1.0


def test_an_outlier_changes_nothing(clock: FakeClock) -> None:
    runs = {"a": clock.taking("a", chain([1.0, 1.0, 50.0], repeat(1.0))), "b": clock.taking("b", chain([99.0], repeat(0.9)))}
    found = measure(runs, clock, budget=1.0)
    assert found == Measured({"a": 1.0, "b": 0.9}) and choose("ab", found) == "b"


def test_what_is_clearly_slower_is_left_out_after_two_rounds(clock: FakeClock) -> None:
    runs = {
        "a": clock.taking("a", repeat(3.0)),
        "b": clock.taking("b", repeat(1.0)),
        "c": clock.taking("c", chain([9.0], repeat(1.5))),
    }
    found = measure(runs, clock, budget=1.0)
    assert "".join(clock.order) == "abc" * 2 + "bc" * 3
    assert found.seconds == {"a": 3.0, "b": 1.0, "c": 1.5}


def test_noise_is_what_candidates_differ_from_themselves(clock: FakeClock) -> None:
    runs = {"a": clock.taking("a", cycle([1.0, 1.1])), "b": clock.taking("b", cycle([0.95, 1.045]))}
    found = measure(runs, clock, budget=20.0)
    assert found.noise == pytest.approx(0.1)
    assert choose("ab", found) == "a"  # 5% sooner, where calls of the same differ by 10%
    assert choose("ab", Measured(found.seconds, 0.0)) == "b"


def test_a_candidate_that_fails_while_timed_is_left_out(clock: FakeClock) -> None:
    runs = {
        "a": clock.failing(ValueError("no\nmore"), after=3),
        "b": clock.taking("b", repeat(2.0)),
        "c": clock.failing(KeyError()),
    }
    found = measure(runs, clock, budget=1.0)
    assert found.seconds == {"b": 2.0} and found.failed == {"a": "ValueError: no", "c": "KeyError: no message"}
    assert measure({"a": clock.failing(KeyError())}, clock, budget=1.0).seconds == {}
    assert measure({}, clock, budget=1.0) == Measured({})


def test_a_candidate_that_costs_the_device_ends_it(clock: FakeClock) -> None:
    runs = {"a": clock.taking("a", repeat(1.0)), "b": clock.failing(RuntimeError("illegal address"), after=2, dies=True)}
    with pytest.raises(DeviceLost, match="b: RuntimeError: illegal address"):
        measure(runs, clock, budget=1.0)


def test_the_choice_is_the_earliest_of_the_best() -> None:
    times = {"c": 1.0, "b": 1.005, "a": 1.02}
    assert choose("abc", Measured(times)) == "b"
    assert choose("cba", Measured(times)) == "c"
    assert choose("abc", Measured(times, noise=0.03)) == "a"
    assert choose("ab", Measured({})) == ""


def test_choosing_again_changes_nothing_within_the_noise() -> None:
    times = {"c": 1.0, "b": 1.005, "a": 1.02}
    assert choose("abc", Measured(times), incumbent="c") == "c"
    assert choose("abc", Measured(times), incumbent="a") == "b"
    assert choose("abc", Measured(times), incumbent="gone") == "b"


def test_calls_in_a_row_are_timed_until_the_device_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    assert mean_seconds(lambda: time.sleep(0.01)) >= 0.01
    now, launched = [0.0], [5]

    def wait() -> None:
        now[0] += launched.pop() if launched else 0

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    assert mean_seconds(lambda: launched.append(1), 1, wait) == 1


def test_failures_are_told_from_losses(clock: FakeClock) -> None:
    assert run_guarded("a", clock, lambda: 3) == 3
    with pytest.raises(Failed, match="ValueError: no message"):
        run_guarded("a", clock, clock.failing(ValueError()))
    with pytest.raises(KeyboardInterrupt):
        run_guarded("a", clock, lambda: (_ for _ in ()).throw(KeyboardInterrupt))


X = torch.arange(1.0, 13.0).reshape(3, 4)
NAN, INF = float("nan"), float("inf")


def changed(x: Tensor, value: float) -> Tensor:
    x = x.clone()
    x[1, 1] = value
    return x


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        (X + 1e-3, X, ""),
        (X.T.contiguous().T, X, ""),
        (X + 1e-1, X, "result 0 is off by 1.4e-02 of its norm, 1e-03 allowed"),
        (X.double() + 1e-3, X.double(), "result 0 is off by 1.4e-04 of its norm, 1e-09 allowed"),
        (X.bfloat16() + 0.0625, X.bfloat16(), ""),
        (X.half() + 0.1, X.half(), "result 0 is off by 1.4e-02 of its norm, 5e-03 allowed"),
        (changed(X, NAN), X, "result 0 is not finite where it should be"),
        (changed(X, INF), X, "result 0 is not finite where it should be"),
        (X, changed(X, NAN), ""),
        (changed(X, 3.0) + 1, changed(X, INF), "result 0 is off by 1.3e-01 of its norm, 1e-03 allowed"),
        (X, X[:2], "result 0 is float32[3, 4] instead of float32[2, 4]"),
        (X, X.double(), "result 0 is float32[3, 4] instead of float64[3, 4]"),
        (X.int(), X.int(), ""),
        (X > 3, X > 4, "result 0 differs"),
        (X * 0, X * 0, ""),
        (X, X * 0, "result 0 is not zero where it should be"),
        (X[:0], X[:0], ""),
        (torch.complex(X, X), torch.complex(X, X), ""),
        (torch.complex(X, -X), torch.complex(X, X).conj(), ""),
        (torch.complex(X, X), torch.complex(X, -X), "result 0 is off by 1.4e+00 of its norm, 1e-03 allowed"),
        (X.to(torch.float8_e4m3fn), X.to(torch.float8_e4m3fn), ""),
    ],
)  # fmt: skip
def test_differences(found: Tensor, wanted: Tensor, said: str) -> None:
    assert difference([found], [wanted]) == said


def test_differences_of_several_results() -> None:
    assert difference([X, X], [X]) == "2 results instead of 1"
    assert difference([X, X + 1], [X, X]).startswith("result 1 is off by")
    assert difference([], []) == ""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.int64, torch.uint8, torch.bool])
def test_spoiled_results_are_wrong(dtype: torch.dtype) -> None:
    results = [X.to(dtype, copy=True), (X > 3).to(dtype)]
    kept = copies_of(results)
    overwrite(results)
    assert all(difference([a], [b]) for a, b in zip(results, kept, strict=True))
