"""Tests tuning on a GPU: its clock, choices between torch's own ops, and a candidate that breaks the device."""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from lamina.core.errors import CompileError
from lamina.tune.clocks import CudaClock
from lamina.tune.decide import decide
from lamina.tune.question import Answer, Identity, Question
from lamina.tune.store.store import Store

N = 4096
QUESTION = Question("mm bf16", "aten.mm 4096x4096x4096", ("in pieces", "library", "wrong", "too large"), reference="library")


@dataclass
class Made:
    """A candidate that calls `compute`."""

    compute: Callable[[], Tensor]

    def compile(self) -> None:
        pass

    def run(self) -> Sequence[Tensor]:
        return [self.compute()]


def products() -> Callable[[str], Made]:
    a, b = (torch.randn(N, N, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    found = {
        "in pieces": lambda: torch.cat([piece @ b for piece in a.split(128)]),
        "library": lambda: a @ b,
        "wrong": lambda: a @ b * 1.1,
        "too large": lambda: torch.empty(1 << 50, device="cuda"),
    }
    return lambda name: Made(found[name])


def test_the_clock_sees_what_the_gpu_does() -> None:
    clock, x = CudaClock(0), torch.zeros(1 << 28, device="cuda")
    taken = sorted(clock.seconds(x.zero_) for _ in range(11))[5]
    assert (1 << 30) / 12e12 < taken < (1 << 30) / 2e11  # of 1 GiB at between 0.2 and 12 TB/s
    assert clock.alive()


def test_the_clock_does_not_time_the_host() -> None:
    """Issuing a library call may take the host longer than its kernel takes the GPU."""
    clock, x = CudaClock(0), torch.zeros(8, device="cuda")

    def slow() -> None:
        time.sleep(1e-3)
        x.zero_()

    assert sorted(clock.seconds(slow) for _ in range(11))[5] < 1e-4


def test_the_fastest_is_chosen(tmp_path: Path) -> None:
    store, here = Store(tmp_path / "tuning.json"), Identity.of_gpu(0)
    assert "SMs" in here.device
    answer = decide(QUESTION, here, store, "full", products(), clock=CudaClock(0))
    assert answer.winner == "library" and [name for name, _ in answer.dropped] == ["wrong", "too large"]
    assert "wrong numbers: result 0 is off by 1.0e-01" in dict(answer.dropped)["wrong"]
    assert 2 * N**3 / 2e15 < dict(answer.times)["library"] < 2 * N**3 / 2e13
    assert store.get(QUESTION.key, here) == answer


def test_choosing_again_chooses_the_same(tmp_path: Path) -> None:
    a = torch.randn(4 * N, 4 * N, device="cuda")  # a millisecond's work, where the clock's steps of half a microsecond are nothing
    question, store = Question("relu", "aten.relu", ("one", "other")), Store(tmp_path / "tuning.json")
    chosen = {
        decide(question, Identity.of_gpu(0), store, "full", lambda _: Made(lambda: a.relu()), clock=CudaClock(0), again=True).winner
        for _ in range(5)
    }
    assert len(chosen) == 1


def _out_of_range(path: str, said: "multiprocessing.SimpleQueue[str]") -> None:
    x, far = torch.ones(8, device="cuda"), torch.full((8,), 1 << 40, device="cuda")
    found = {"good": lambda: x + 1, "fatal": lambda: x[far], "other": lambda: 1 + x}
    question = Question("add", "aten.add", ("good", "fatal", "other"))
    try:
        decide(question, Identity.of_gpu(0), Store(path), "full", lambda name: Made(found[name]), clock=CudaClock(0))
        said.put("nothing")
    except CompileError as error:
        said.put(str(error))


def test_a_candidate_that_costs_the_device_is_remembered(tmp_path: Path) -> None:
    path, context = tmp_path / "tuning.json", multiprocessing.get_context("spawn")
    said: multiprocessing.SimpleQueue[str] = context.SimpleQueue()
    process = context.Process(target=_out_of_range, args=(str(path), said))
    process.start()
    process.join(120)
    assert "candidate 'fatal' of aten.add cost the device" in said.get()
    known = Store(path).get("add", Identity.of_gpu(0))
    assert known and [name for name, _ in known.dropped] == ["fatal"]
    x = torch.ones(8, device="cuda")
    question = Question("add", "aten.add", ("fatal", "good"))
    answer = decide(question, Identity.of_gpu(0), Store(path), "cached", lambda _: Made(lambda: x), clock=CudaClock(0))
    assert answer == Answer("good", (), known.dropped)


@pytest.mark.parametrize("policy", ["off", "cached"])
def test_nothing_is_measured_unasked(tmp_path: Path, policy: str) -> None:
    before = torch.cuda.memory_allocated()
    answer = decide(QUESTION, Identity.of_gpu(0), Store(tmp_path / "x"), policy, products, clock=CudaClock(0))  # type: ignore[arg-type]
    assert answer.winner == "in pieces" and torch.cuda.memory_allocated() == before
