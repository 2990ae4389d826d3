"""Tests the choice of kernels for attention's gradients without a GPU: tuning's questions, its inputs, and the code."""

from dataclasses import replace

import pytest
import torch
from attention_programs import attention, exact, graph_level, plain, program_of
from attention_training import backward, exact_sums
from gpu_programs import TARGET
from problems import LIBRARY, attentions
from torch import Tensor
from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.options import Options
from lamina.core.program import Call, Launch
from lamina.core.target import Target
from lamina.passes.families.attention.backward import Gradients
from lamina.passes.families.attention.cost import AttentionWork, candidates
from lamina.passes.families.attention.schedules import Backward
from lamina.passes.families.surroundings import calls
from lamina.report.choices import untuned_note
from lamina.targets import backend
from lamina.targets.kernel_calls.user import take
from lamina.targets.nvvm.backend import GpuArtifact
from lamina.tune import tuner
from lamina.tune.problems import modules
from lamina.tune.problems.parts import random_inputs
from lamina.tune.problems.subgraph_extraction import Subgraph
from lamina.tune.question import Answer, Question
from lamina.tune.store.store import Store

BF16 = torch.bfloat16
HOPPER, AMPERE = Gpu.named("sm_90a"), Gpu.named("sm_80")


def zeros(*shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=BF16)


def training(q: Tensor, k: Tensor, grad: Tensor) -> tuple[Tensor, ...]:
    """A layer's forward and backward passes in one graph."""
    made = attention(q, k, k, None, True)
    return (made[0], *backward(grad, q, k, k, made, None, True))


def test_both_passes_are_asked_about(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pass is a separate question: one may use the library and the other Lamina's kernel."""
    questions: list[Question] = []
    ours = str(Backward(64, 64, 128, 64, 8))

    def decide(question: Question, *_: object, **__: object) -> Answer:
        questions.append(question)
        return Answer(ours if "backward" in question.what else LIBRARY)

    monkeypatch.setattr(tuner, "decide", decide)
    module = graph_level(training, (zeros(1, 4, 100, 64), zeros(1, 2, 100, 64), zeros(1, 4, 100, 64)))
    modules.annotate(module, backend(Target.parse(TARGET)), 0, Options(tune="full"), store)
    one, other = questions
    assert one.what == "attention 1x4x100x64 on 1x2x100x64, causal, for training"
    assert other.what == "attention backward 1x4x100x64 on 1x2x100x64, causal"
    assert all(q.reference == LIBRARY == q.candidates[0] for q in questions)
    assert all(name.startswith("forward{") for name in one.candidates[1:])
    assert list(other.candidates[1:]) == [
        str(c) for c in candidates(AttentionWork(1, 4, 2, 100, 100, 64, 64, True, backward=True), HOPPER)
    ]
    program = program_of(module)
    assert [s.callee.rpartition(".")[2] if s.reason == "kernel" else "" for s in program.steps if isinstance(s, Call)] == [
        "", "attention_backward_queries", "attention_backward_keys",
    ]  # fmt: skip
    assert untuned_note(take(program, (), HOPPER)[0], "cached").startswith("2 attention ops, 1 by the library, by the cost model")


def test_unmeasured_all_are_the_librarys() -> None:
    module = graph_level(training, (zeros(1, 4, 100, 64), zeros(1, 2, 100, 64), zeros(1, 4, 100, 64)))
    assert [s.reason for s in program_of(module).steps if isinstance(s, Call)] == ["library"] * 2


def test_gradients_are_measured_on_what_a_forward_pass_finds() -> None:
    """The candidates for gradients get the results of a forward pass on the same random queries, keys and values."""
    module = graph_level(training, (zeros(1, 2, 20, 16), zeros(1, 2, 20, 16), zeros(1, 2, 20, 16)))
    (op,) = [op for op in calls(module) if Gradients.read(op) is not None]
    gradients = Gradients.read(op)
    assert gradients is not None
    (problem,) = [p for p in attentions(module) if isinstance(p.call, Gradients)]
    cut = Subgraph(problem)
    grad, q, k, out, sums = random_inputs(cut, torch.device("cpu"))
    assert not torch.equal(grad, out)
    torch.testing.assert_close(out.double(), exact(q, k, k, causal=True), rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(sums.double(), exact_sums(q, k, causal=True))


@pytest.mark.parametrize(("gpu", "size"), [(HOPPER, 64), (HOPPER, 128), (AMPERE, 128)])
def test_code_keeps_all_in_registers(gpu: Gpu, size: int) -> None:
    """The code of the most promising candidate does not spill registers."""
    tensors = zeros(1, 2, 512, size), zeros(1, 1, 512, size), zeros(1, 2, 512, size)
    config, *_ = candidates(AttentionWork(1, 2, 1, 512, 512, size, size, True, backward=True), gpu)
    module = graph_level(lambda q, k, grad: training(q, k, grad)[1:], tensors)
    program = program_of(module, f"forward{{m=64 n=32}}; {config}")
    program, ready = take(replace(program, steps=program.steps[-2:]), (), gpu)
    with ir.Context(), ir.Location.unknown():
        artifact = backend(Target.parse(f"nvvm:{gpu.arch}")).compile(ir.Module.create(), ready)
    assert isinstance(artifact, GpuArtifact) and all(isinstance(s, Launch) for s in program.steps)
    assert all(r.spill_stores == r.spill_loads == 0 for r in artifact.resources), artifact.resources
    assert all(needs.shared <= gpu.shared_bytes for needs in artifact.needs.values())


def test_schedules_of_attention_itself_are_not_for_gradients() -> None:
    """A model without training is unchanged."""
    module = graph_level(lambda q: plain(q, q, q, True), (zeros(1, 2, 40, 16),))
    assert [s.reason for s in program_of(module, str(Backward())).steps if isinstance(s, Call)] == ["library"]
