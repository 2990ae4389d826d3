"""Tuning spaces of users' kernels, with no GPU: what is asked, what an answer does to the program, what is measured."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from cpu_clock import CpuClock
from custom_kernels import TARGET, planned, scaled_add, scaled_add_kernel, scaled_add_of
from torch import Tensor

import lamina
from lamina.core.errors import CompileError
from lamina.core.options import Options
from lamina.core.program import Call, Launch
from lamina.core.target import Target
from lamina.frontend.calls.interface import with_outputs
from lamina.frontend.compiling import stages, tuning
from lamina.frontend.entry.export import inference_graph
from lamina.frontend.fx.destination import Destination
from lamina.frontend.rewrites.normalize import normalize
from lamina.passes.plan.program import program_from
from lamina.targets import backend
from lamina.tune import tuner
from lamina.tune.problems import user_kernels
from lamina.tune.problems.user_kernels import random_inputs
from lamina.tune.question import Answer, Identity, Question
from lamina.tune.store.store import Store

CONFIGS = [{"BLOCK": 128, "num_warps": 4}, {"BLOCK": 512, "num_warps": 8}, {"BLOCK": 1024, "num_warps": 2}]
NAMES = ("BLOCK=128 num_warps=4", "BLOCK=512 num_warps=8", "BLOCK=1024 num_warps=2")
HERE = Identity("a GPU, 132 SMs", "versions")
FUNCTIONS = {scaled_add_kernel.cache_key: scaled_add_kernel}


def tuned_of(**changes: Any) -> lamina.CustomKernel:
    return scaled_add_of(**{"constants": {}, "configs": CONFIGS, **changes})


def steps(fn: Callable[..., Any], *inputs: Tensor) -> stages.Program:
    """A program that still calls users' kernels."""
    options = Options(kernels=(tuned_of(),))
    graph = normalize(inference_graph(fn, inputs, options, TARGET))
    module = stages.import_linalg(graph, options)
    stages.run_passes(module, "linalg", "tile", Target.parse(TARGET), options, {})
    with module.context:
        return with_outputs(program_from(module, "cuda"), graph.interface)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(Identity, "of_gpu", staticmethod(lambda index: HERE))
    return Store(tmp_path / "store.json")


def test_without_an_answer_the_first_is_taken() -> None:
    x = torch.randn(2048)
    _, program, (kernel,) = planned(scaled_add, [x, x], [tuned_of()])
    assert isinstance(program.steps[0], Launch) and program.steps[0].grid == 16 and kernel.warps == 4


def test_an_answer_of_the_store_is_followed(store: Store) -> None:
    x = torch.randn(2048)
    program = steps(lambda x: torch.relu(scaled_add(x[4:1028], x[:1024])) + scaled_add(x[1:1025], x[:1024]), x)
    first, second = (step for step in program.steps if isinstance(step, Call))
    assert user_kernels.question_of(first).what == "scaled_add_kernel f32 1024, f32 1024, f32 1024"
    question = user_kernels.question_of(first)
    assert question.candidates == NAMES and user_kernels.question_of(second) != question
    store.put(question, HERE, Answer(NAMES[1]))
    heard: list[tuple[Question, Answer]] = []
    found = user_kernels.chosen(
        program, FUNCTIONS, backend(Target.parse(TARGET)), 0, "cached", store, lambda q, a: heard.append((q, a)), clock=CpuClock()
    )
    warps = [dict(step.kwargs)["warps"] for step in found.steps if isinstance(step, Call)]
    assert warps == [8, 4] and [answer.winner for _, answer in heard] == [NAMES[1], NAMES[0]]
    assert dict(next(s for s in found.steps if isinstance(s, Call)).kwargs)["grid"] == (2, 1, 1)


def test_what_is_measured(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each config as a program of its own, down to the cubin; here run by torch, the last one wrongly."""
    made: list[tuple[int, int, int]] = []

    def compile_only(self: user_kernels.BuiltKernel) -> None:
        program, artifact = self.program()
        (launch,) = program.steps
        assert isinstance(launch, Launch) and artifact.kernels == ("custom_scaled_add_kernel",) and len(program.outputs) == 1
        made.append((launch.grid, launch.threads, launch.args[0].offset))

    def run(self: user_kernels.BuiltKernel) -> list[Tensor]:
        wrong = dict(self.step.kwargs)["warps"] == 2
        x, y = self.inputs
        return [x[1:] + y + wrong]

    monkeypatch.setattr(user_kernels.BuiltKernel, "compile", compile_only)
    monkeypatch.setattr(user_kernels.BuiltKernel, "run", run)
    monkeypatch.setattr(user_kernels, "random_inputs", lambda step, device: random_inputs(step, torch.device("cpu")))
    program = steps(lambda x: scaled_add(x[1:1025], x[:1024]), torch.randn(2048))
    heard: list[Answer] = []
    user_kernels.chosen(
        program, FUNCTIONS, backend(Target.parse(TARGET)), 0, "full", store, lambda q, a: heard.append(a), clock=CpuClock()
    )
    assert sorted(made) == [(1, 64, 4), (2, 256, 4), (8, 128, 4)]
    (answer,) = heard
    assert answer.winner in NAMES[:2] and [name for name, _ in answer.dropped] == [NAMES[2]]


def test_compilations_ask(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(tuner, "CudaClock", lambda index: CpuClock())
    x = torch.randn(64)
    program = steps(scaled_add, x, x)
    (step,) = program.steps
    assert isinstance(step, Call)
    store.put(user_kernels.question_of(step), HERE, Answer(NAMES[2]))
    told: list[str] = []
    session = tuning.Session(store, answered=lambda choice: told.append(choice.chosen))
    goal = Destination(Target.parse(TARGET), "", 0)
    found, _, (choice,) = stages._custom(program, backend(Target.parse(TARGET)), Options(kernels=(tuned_of(),)), goal, session)
    assert [s.threads for s in found.steps if isinstance(s, Launch)] == [64] and told == [NAMES[2]] == [choice.chosen]
    _, _, none = stages._custom(program, backend(Target.parse(TARGET)), Options(kernels=(tuned_of(),), tune="off"), goal, session)
    _, _, far = stages._custom(
        program, backend(Target.parse(TARGET)), Options(kernels=(tuned_of(),)), replace(goal, gpu=None), session
    )
    assert none == far == ()


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ([{"BLOCK": 1}, {"BLOK": 1}], "no parameter 'BLOK'"),
        ([{"BLOCK": 1}, {"BLOCK": 2, "num_warps": 4}], "configs.0. names .'BLOCK'., another .'BLOCK', 'num_warps'."),
        ([{"BLOCK": 1}, {"BLOCK": 1}], "two of its configs are the same"),
        ([{"BLOCK": 1, "num_warps": 3}], "num_warps must be a power of two"),
        ([{"num_warps": 4}], "grid takes 'BLOCK', which nobody gives it"),
    ],
)
def test_errors(configs: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        tuned_of(configs=configs)
