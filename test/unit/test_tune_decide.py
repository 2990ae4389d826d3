"""Tests the choice under each tuning policy, and candidates that fail."""

import multiprocessing
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from cpu_clock import CpuClock
from torch import Tensor

from lamina.core.errors import CompileError
from lamina.tune.decide import decide
from lamina.tune.question import Answer, Identity, Question, versions
from lamina.tune.store.store import Store

HERE = Identity("a chip, 8 SMs", "lamina 1")
NAMES = ("a", "b", "c", "d")
QUESTION = Question("mm f32 8x8", "aten.mm 8x8", NAMES)
Y = torch.arange(4.0)


@dataclass
class Fake:
    """A candidate that takes `seconds` and computes `result`, or raises."""

    seconds: float = 1.0
    result: Tensor | None = None
    compiling: BaseException | None = None
    running: BaseException | None = None
    fatal: bool = False


@dataclass
class Bench:
    """Fake candidates by name, a clock that they set, and records of what was compiled and run."""

    fakes: dict[str, Fake] = field(default_factory=dict)
    compiled: list[str] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    time: float = 0.0
    dead: bool = False

    def make(self, name: str) -> "Made":
        return Made(name, self.fakes.get(name, Fake()), self)

    def seconds(self, run: Callable[[], object]) -> float:
        before = self.time
        run()
        return self.time - before

    def wait(self) -> None:
        pass

    def alive(self) -> bool:
        return not self.dead

    def now(self) -> float:
        return self.time


@dataclass
class Made:
    name: str
    fake: Fake
    bench: Bench

    def compile(self) -> None:
        self.bench.compiled.append(self.name)
        if self.fake.compiling:
            raise self.fake.compiling

    def run(self) -> Sequence[Tensor]:
        self.bench.ran.append(self.name)
        self.bench.time += self.fake.seconds
        if self.fake.running:
            self.bench.dead = self.fake.fatal
            raise self.fake.running
        return [Y.clone() if self.fake.result is None else self.fake.result]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "tuning.json")


def of(**fakes: Fake | float) -> Bench:
    return Bench({name: Fake(seconds=fake) if isinstance(fake, int | float) else fake for name, fake in fakes.items()})


def test_off_takes_the_first_and_leaves_the_store_alone(store: Store) -> None:
    store.put(QUESTION, HERE, Answer("b"))
    bench = of()
    assert decide(QUESTION, HERE, store, "off", bench.make, clock=bench) == Answer("a")
    assert not bench.compiled


def test_cached_measures_nothing(store: Store) -> None:
    bench = of(b=0.5)
    assert decide(QUESTION, HERE, store, "cached", bench.make, clock=bench) == Answer("a")
    assert not bench.compiled and not store.path.exists()
    store.put(QUESTION, HERE, Answer("b", (("b", 0.5),)))
    assert decide(QUESTION, HERE, store, "cached", bench.make, clock=bench) == Answer("b", (("b", 0.5),))


@pytest.mark.parametrize(
    ("known", "winner"),
    [
        (Answer("gone"), "a"),
        (Answer("", dropped=(("a", "cost the device"),)), "b"),
        (Answer("b", dropped=(("b", "wrong"),)), "a"),
        (Answer("b", pin="c"), "c"),
        (Answer("", dropped=tuple((name, "wrong") for name in NAMES)), "a"),
    ],
)
def test_cached_takes_what_may_be_taken(store: Store, known: Answer, winner: str) -> None:
    store.put(Question(QUESTION.key, QUESTION.what, (*NAMES, "gone")), HERE, known)
    if known.pin:
        store.pin(QUESTION.key, known.pin)
    answer = decide(QUESTION, HERE, store, "cached", of().make, clock=of())
    assert answer.winner == winner and answer.pinned == known.pinned and answer.dropped == known.dropped


def test_quick_measures_the_first_three_once(store: Store) -> None:
    bench = of(b=0.7, d=0.1)
    answer = decide(QUESTION, HERE, store, "quick", bench.make, clock=bench)
    assert answer.winner == "b" and dict(answer.times) == pytest.approx({"a": 1.0, "b": 0.7, "c": 1.0})
    assert sorted(bench.compiled) == ["a", "b", "c"] and store.get(QUESTION.key, HERE) == answer
    bench.compiled.clear()
    assert decide(QUESTION, HERE, store, "quick", bench.make, clock=bench) == answer and not bench.compiled
    assert decide(QUESTION, HERE, store, "cached", bench.make, clock=bench) == answer


def test_quick_goes_on_where_the_first_three_fail(store: Store) -> None:
    bench = of(**{name: Fake(compiling=ValueError("no")) for name in "abc"})
    answer = decide(QUESTION, HERE, store, "quick", bench.make, clock=bench)
    assert answer.winner == "d" and [name for name, _ in answer.dropped] == ["a", "b", "c"]


def test_full_measures_all_that_is_not_known(store: Store) -> None:
    bench = of(b=0.7, d=0.5)
    decide(QUESTION, HERE, store, "quick", bench.make, clock=bench)
    bench.compiled.clear()
    answer = decide(QUESTION, HERE, store, "full", bench.make, clock=bench)
    assert answer.winner == "d" and sorted(bench.compiled) == list(NAMES)
    bench.compiled.clear()
    assert decide(QUESTION, HERE, store, "full", bench.make, clock=bench) == answer and not bench.compiled


def test_again_measures_what_is_known_and_keeps_the_choice_within_the_noise(store: Store) -> None:
    bench = of(b=0.7)
    assert decide(QUESTION, HERE, store, "full", bench.make, clock=bench).winner == "b"
    bench.fakes = of(b=0.7, a=0.698).fakes
    assert decide(QUESTION, HERE, store, "full", bench.make, clock=bench, again=True).winner == "b"
    bench.fakes = of(b=0.7, a=0.6).fakes
    assert decide(QUESTION, HERE, store, "full", bench.make, clock=bench, again=True).winner == "a"


def test_a_pin_is_followed_without_measuring(store: Store) -> None:
    bench = of(b=0.7)
    decide(QUESTION, HERE, store, "full", bench.make, clock=bench)
    store.pin(QUESTION.key, "c")
    bench.compiled.clear()
    answer = decide(QUESTION, HERE, store, "full", bench.make, clock=bench, again=True)
    assert answer.winner == "c" and answer.pinned and not bench.compiled
    narrower = Question(QUESTION.key, QUESTION.what, ("a", "b"))
    assert decide(narrower, HERE, store, "full", bench.make, clock=bench) == Answer("b", answer.times)


def test_what_fails_or_is_wrong_is_dropped_for_good(store: Store) -> None:
    bench = of(
        a=Fake(compiling=ValueError("no tensor cores\nat all")),
        b=Fake(0.1, running=RuntimeError("out of resource: shared memory")),
        c=5.0,
        d=Fake(0.1, result=Y + 1),
    )
    answer = decide(QUESTION, HERE, store, "full", bench.make, clock=bench)
    assert answer.winner == "c" and [name for name, _ in answer.times] == ["c"]
    assert dict(answer.dropped) == {
        "a": "does not compile: ValueError: no tensor cores",
        "b": "RuntimeError: out of resource: shared memory",
        "d": "wrong numbers: result 0 is off by 5.3e-01 of its norm, 1e-03 allowed",
    }
    bench.compiled.clear()
    assert decide(QUESTION, HERE, store, "full", bench.make, clock=bench, again=True).dropped == answer.dropped
    assert bench.compiled == ["c"]


def test_a_trusted_candidate_is_what_others_are_compared_with(store: Store) -> None:
    question = Question(QUESTION.key, QUESTION.what, NAMES, reference="d")
    bench = of(a=Fake(0.1, result=Y * 2), d=3.0)
    answer = decide(question, HERE, store, "quick", bench.make, clock=bench)
    assert answer.winner == "b" and [name for name, _ in answer.dropped] == ["a"]
    assert bench.ran[0] == "d" and dict(answer.times)["d"] == pytest.approx(3.0)


def test_results_that_are_not_written_are_noticed(store: Store) -> None:
    shared = torch.empty(4)

    class Writes(Made):
        def run(self) -> Sequence[Tensor]:
            super().run()
            return [shared.copy_(Y) if self.name != "b" else shared]

    bench = of(b=0.1)
    answer = decide(QUESTION, HERE, store, "full", lambda name: Writes(name, bench.fakes.get(name, Fake()), bench), clock=bench)
    assert answer.winner == "a" and dict(answer.dropped) == {"b": "wrong numbers: result 0 is not finite where it should be"}


def test_where_none_works_it_is_said(store: Store) -> None:
    bench = of(**{name: Fake(compiling=ValueError(f"no {name}")) for name in NAMES})
    with pytest.raises(CompileError, match="no candidate of aten.mm 8x8 works: .*d: does not compile: ValueError: no d"):
        decide(QUESTION, HERE, store, "full", bench.make, clock=bench)
    assert store.records() == []


def test_a_candidate_that_costs_the_device_is_never_tried_again(store: Store) -> None:
    bench = of(b=Fake(running=RuntimeError("an illegal memory access"), fatal=True), c=0.5)
    message = "candidate 'b' of aten.mm 8x8 cost the device: RuntimeError: an illegal memory access (start the program again"
    with pytest.raises(CompileError, match=re.escape(message)):
        decide(QUESTION, HERE, store, "full", bench.make, clock=bench)
    assert "c" not in bench.ran
    with pytest.raises(CompileError, match="the device takes no more work"):
        decide(QUESTION, HERE, store, "full", bench.make, clock=bench)
    restarted = of(c=0.5)
    answer = decide(QUESTION, HERE, store, "full", restarted.make, clock=restarted)
    assert answer.winner == "c" and "b" not in restarted.compiled
    assert dict(answer.dropped) == {"b": "cost the device: RuntimeError: an illegal memory access"}


def test_a_lost_device_is_remembered_where_the_choice_is_gone(store: Store) -> None:
    store.put(Question(QUESTION.key, QUESTION.what, ("gone",)), HERE, Answer("gone"))
    bench = of(a=Fake(running=RuntimeError("an illegal memory access"), fatal=True))
    with pytest.raises(CompileError, match="'a' of aten.mm"):
        decide(QUESTION, HERE, store, "full", bench.make, clock=bench)
    assert decide(QUESTION, HERE, store, "cached", bench.make, clock=bench).winner == "b"


def test_a_lost_device_leaves_what_was_known(store: Store) -> None:
    bench = of(b=0.5)
    known = decide(QUESTION, HERE, store, "quick", bench.make, clock=bench)
    bench.fakes["d"] = Fake(running=RuntimeError("an illegal memory access"), fatal=True)
    with pytest.raises(CompileError, match="'d' of aten.mm"):
        decide(QUESTION, HERE, store, "full", bench.make, clock=bench)
    answer = decide(QUESTION, HERE, store, "cached", bench.make, clock=bench)
    assert (answer.winner, answer.times) == ("b", known.times) and [name for name, _ in answer.dropped] == ["d"]


@pytest.mark.parametrize("stage", ["compiling", "running"])
def test_interrupted_tuning_keeps_what_it_learned(store: Store, stage: str) -> None:
    bench = of(b=0.5)
    first = decide(QUESTION, HERE, store, "full", bench.make, clock=bench)
    second = Question("another", "aten.mm 9x9", NAMES)
    bench.fakes["c"] = Fake(compiling=KeyboardInterrupt()) if stage == "compiling" else Fake(running=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        decide(second, HERE, store, "full", bench.make, clock=bench)
    assert store.get(QUESTION.key, HERE) == first and store.get("another", HERE) is None
    bench = of(b=0.5)
    assert decide(second, HERE, store, "full", bench.make, clock=bench).winner == "b"


def test_a_store_that_takes_nothing_does_not_stop_tuning(tmp_path: Path) -> None:
    bench = of(b=0.5)
    assert decide(QUESTION, HERE, Store(tmp_path), "full", bench.make, clock=bench).winner == "b"


def test_progress_is_told(store: Store) -> None:
    said: list[tuple[str, float]] = []
    bench = of()
    decide(QUESTION, HERE, store, "full", bench.make, clock=bench, watch=lambda stage, share: said.append((stage, share)))
    assert list(dict.fromkeys(stage for stage, share in said if share == 1.0)) == ["compiling", "checking", "timing"]
    assert said == sorted(said, key=lambda item: (["compiling", "checking", "timing"].index(item[0]), item[1]))


def test_versions() -> None:
    assert re.match(r"lamina \S+, torch 2\S+, triton \S+$", versions())


def _dies(path: str) -> None:
    class Dies(Made):
        def run(self) -> Sequence[Tensor]:
            if self.name == "b":
                os._exit(3)
            return super().run()

    bench = of()
    decide(QUESTION, HERE, Store(path), "full", lambda name: Dies(name, Fake(), bench), clock=bench)


def test_a_candidate_that_ended_the_process_is_never_tried_again(store: Store) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_dies, args=(str(store.path),))
    process.start()
    process.join(60)
    assert process.exitcode == 3
    bench = of(b=0.1)
    answer = decide(QUESTION, HERE, store, "full", bench.make, clock=bench)
    assert answer.winner == "a" and answer.dropped == (("b", "it ended the process"),) and "b" not in bench.compiled
    assert store.get(QUESTION.key, HERE) == answer


@dataclass
class Sum:
    """A sum of small rows, `step` at a time."""

    x: Tensor
    step: int

    def compile(self) -> None:
        pass

    def run(self) -> Sequence[Tensor]:
        return [torch.cat([piece.sum(1) for piece in self.x.split(self.step)])]


def test_a_choice_on_the_cpu(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lamina.tune.decide.BUDGET_SECONDS", 0.1)
    x, question = torch.randn(128, 64), Question("sum", "aten.sum 128x64", ("1", "128"))
    answer = decide(question, HERE, store, "full", lambda name: Sum(x, int(name)), clock=CpuClock())
    assert answer.winner == "128" and not answer.dropped
