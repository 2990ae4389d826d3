"""Tests products of rows with the matrix of their group (torch._grouped_mm): the library's, and a Lamina kernel in Triton's
interpreter, against float64."""

from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F
from attention_programs import graph_level, run_program
from gpu_programs import TARGET
from problems import LIBRARY
from torch import Tensor
from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.options import Options
from lamina.core.program import Call, Launch, Program
from lamina.core.target import Target
from lamina.passes.families.choice import Choice
from lamina.passes.families.grouped_products import SCHEDULES, Grouped
from lamina.passes.families.surroundings import calls
from lamina.passes.infra.pipeline import run
from lamina.passes.plan.program import program_from
from lamina.schedules.contraction import GemmConfig
from lamina.targets import backend
from lamina.targets.kernel_calls.user import take
from lamina.targets.levels import pipeline
from lamina.targets.module import keep_kernels
from lamina.targets.ptx import assemble
from lamina.targets.triton.compiler import join
from lamina.tune import tuner
from lamina.tune.problems import modules
from lamina.tune.problems.parts import BuiltCandidate, random_inputs
from lamina.tune.problems.subgraph_extraction import Subgraph
from lamina.tune.question import Answer, Question
from lamina.tune.store.store import Store

BF16 = torch.bfloat16
BLOCKS = "triton{m=16 n=16 k=16 warps=4 stages=1}"
ENDS = ([10, 10, 47], [47, 47, 47], [0, 3, 47], [16, 32, 47])


def random(*shape: int) -> Tensor:
    return torch.randn(*shape).to(BF16)


def chosen(fn: Callable[..., Tensor], inputs: Sequence[Tensor], schedule: str) -> tuple[ir.Module, Program]:
    module = graph_level(fn, inputs)
    with module.context:
        for op in calls(module):
            Choice.parse(schedule, (GemmConfig,)).write(op)
    run(pipeline("graph", "tile", target=TARGET), module)
    with module.context:
        program = program_from(module, "cuda")
    keep_kernels(module)
    return module, program


def exact(x: Tensor, w: Tensor, ends: list[int]) -> Tensor:
    firsts = [0, *ends[:-1]]
    return torch.cat([x[a:b].double() @ w[g].double() for g, (a, b) in enumerate(zip(firsts, ends, strict=True))])


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("across", [False, True])
def test_values(ends: list[int], across: bool) -> None:
    x, w = random(47, 40), random(3, 24, 40).mT if across else random(3, 40, 24)
    fn = torch._grouped_mm
    inputs = (x, w, torch.tensor(ends, dtype=torch.int32))
    (found,), names = run_program(*chosen(fn, inputs, BLOCKS), inputs)
    want = exact(x, w, ends)
    assert names == ["grouped_product"] and (found.double() - want).norm() < 4e-3 * want.norm()


FOLLOWS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "silu": lambda y, b: F.silu(y),
    "bias and float": lambda y, b: torch.relu(y.float() + b),
}


@pytest.mark.parametrize("name", FOLLOWS)
def test_what_follows_is_computed_with_it(name: str) -> None:
    x, w, b, ends = random(47, 40), random(3, 40, 24), torch.randn(24), torch.tensor(ENDS[0], dtype=torch.int32)
    inputs = (x, w, ends, b)
    made = chosen(lambda x, w, ends, b: FOLLOWS[name](torch._grouped_mm(x, w, ends), b), inputs, BLOCKS)
    (found,), names = run_program(*made, inputs)
    want = FOLLOWS[name](exact(x, w, ENDS[0]), b.double())
    assert names == ["grouped_product"] and (found.double() - want).norm() < 6e-3 * want.norm()


@pytest.mark.parametrize("schedule", [str(SCHEDULES[0]), str(SCHEDULES[-1])])
def test_code(schedule: str) -> None:
    inputs = (random(4096, 1024), random(8, 1024, 512), torch.zeros(8, dtype=torch.int32))
    _, program = chosen(lambda x, w, ends: F.silu(torch._grouped_mm(x, w, ends)), inputs, schedule)
    for name in ("sm_90a", "sm_80"):
        program_, compiled = take(program, (), Gpu.named(name))
        assert [type(step) for step in program_.steps] == [Launch]
        (needs,) = assemble(join([k.compiled.ptx for k in compiled]), name).resources
        assert needs.spill_stores + needs.spill_loads == 0


def test_what_is_left_to_the_library() -> None:
    """Everything that was not measured, and groups along columns or the inner dimension."""
    ends = torch.tensor([16, 32], dtype=torch.int32)
    for x, w in ((random(48, 40), random(2, 40, 24)), (random(2, 24, 40), random(40, 32)), (random(16, 32), random(32, 24))):
        module = graph_level(torch._grouped_mm, (x, w, ends))
        with module.context:
            (op,) = calls(module)
            assert (Grouped.read(op) is not None) == (w.dim() == 3)
        run(pipeline("graph", "tile", target=TARGET), module)
        with module.context:
            steps = program_from(module, "cuda").steps
        assert [(type(s), s.reason) for s in steps if isinstance(s, Call)] == [(Call, "library")]


def test_tuning_asks_with_what_follows(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Question] = []

    def ours(
        question: Question, identity: object, store: object, tune: str, make: Callable[[str], BuiltCandidate], **_: object
    ) -> Answer:
        asked.append(question)
        cut = make(question.candidates[1]).part
        assert isinstance(cut, Subgraph)
        *_, ends = (x for x in random_inputs(cut, torch.device("cpu")) if x.dtype is torch.int32)
        assert ends.tolist() == [1024, 2048, 3072, 4096]
        return Answer(question.candidates[1])

    monkeypatch.setattr(tuner, "decide", ours)
    monkeypatch.setattr(modules, "random_inputs", lambda cut, device: [])
    inputs = (random(4096, 64), random(4, 64, 96), torch.zeros(4, dtype=torch.int32))
    module = graph_level(lambda x, w, ends: F.silu(torch._grouped_mm(x, w, ends)), inputs)
    modules.annotate(module, backend(Target.parse(TARGET)), 0, Options(tune="quick"), store)
    run(pipeline("graph", "tile", target=TARGET), module)
    with module.context:
        steps = program_from(module, "cuda").steps
    assert [s.reason for s in steps if isinstance(s, Call)] == ["kernel"] and len(steps) == 1
    assert asked[0].what.startswith("grouped_mm 4096x64 by 4x64x96 and silu") and asked[0].candidates == (
        LIBRARY,
        *map(str, SCHEDULES),
    )
