"""Tests the choice of kernels for attention without a GPU: reading calls, the default, tuning's questions, and the code."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from attention_programs import attention, graph_level, masked, plain, program_of
from gpu_programs import TARGET
from problems import LIBRARY
from torch import Tensor
from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.core.options import Options
from lamina.core.program import Call, Launch, Program
from lamina.core.target import Target
from lamina.frontend.entry.levels import emit
from lamina.passes.families.attention.cost import AttentionWork, candidates, default_schedule
from lamina.passes.families.attention.forward import Attention
from lamina.passes.families.attention.schedules import Forward, Specialized, Split
from lamina.passes.families.choice import Choice
from lamina.passes.families.surroundings import calls
from lamina.report.choices import untuned_note
from lamina.targets import backend
from lamina.targets.kernel_calls.user import take
from lamina.targets.nvvm.backend import GpuArtifact
from lamina.tune import tuner
from lamina.tune.problems import modules
from lamina.tune.question import Answer, Question
from lamina.tune.store.store import Store

BF16 = torch.bfloat16
HOPPER, AMPERE = Gpu.named("sm_90a"), Gpu.named("sm_80")
DECODE = AttentionWork(32, 32, 4, 1, 8192, 128, 128)


def random(*shape: int, dtype: torch.dtype = BF16) -> Tensor:
    return torch.zeros(*shape, dtype=dtype)


def read(fn: Callable[..., object], *inputs: Tensor) -> tuple[ir.Module, list[Attention | None]]:
    """With the module, which they live as long as."""
    module = graph_level(fn, inputs)
    found = [Attention.read(op) for op in calls(module)]
    return module, [of if of is not None and of.fits() else None for of in found]


def test_what_is_read_of_a_call() -> None:
    q, k, m = random(2, 4, 5, 16), random(2, 2, 40, 16), random(2, 1, 1, 40)
    module, (found,) = read(lambda q, k, m: attention(q, k, k, m, False, 0.5)[0], q, k, m)
    assert found is not None and found.scale == 0.5 and not found.causal and found.mask is not None
    assert found.what == "attention 2x4x5x16 on 2x2x40x16, mask 2x1x1x40"
    assert found.work == AttentionWork(2, 4, 2, 5, 40, 16, 16, masked=True)
    other, (found,) = read(lambda q: plain(q, q, q, True), q)
    assert found is not None and found.causal and found.scale == 0.25 and found.what.endswith("16, causal")
    assert all(len(calls(m)) == 1 for m in (module, other))


LEFT_TO_THE_LIBRARY: dict[str, tuple[Callable[..., object], tuple[Tensor, ...]]] = {
    "f32": (lambda q: masked(q, q, q, None), (random(1, 2, 8, 16, dtype=torch.float32),)),
    "large heads": (lambda q: plain(q, q, q), (random(1, 2, 8, 512),)),
    "a negative scale": (lambda q: plain(q, q, q, scale=-1.0), (random(1, 2, 8, 16),)),
}


@pytest.mark.parametrize("name", LEFT_TO_THE_LIBRARY)
def test_what_is_left_to_the_library(name: str) -> None:
    fn, inputs = LEFT_TO_THE_LIBRARY[name]
    assert read(fn, *inputs)[1] == [None]
    steps = program_of(graph_level(fn, inputs), "forward{m=16 n=16}").steps
    assert [s.reason for s in steps if isinstance(s, Call)] == ["library"]


def test_without_measurements_few_queries_that_share_keys_are_ours() -> None:
    for taken in (replace(DECODE, batch=8), replace(DECODE, batch=1), replace(DECODE, masked=True)):
        assert isinstance(default_schedule(taken, HOPPER), Split)
    assert isinstance(default_schedule(DECODE, AMPERE), Split)
    for other in (
        DECODE,  # fills the GPU
        AttentionWork(32, 4, 4, 1, 8192, 128, 128),
        AttentionWork(4, 32, 32, 2048, 2048, 64, 64, causal=True),
        AttentionWork(1, 8, 2, 1, 100, 64, 64),
        AttentionWork(16, 12, 12, 512, 512, 64, 64),
    ):
        assert default_schedule(other, HOPPER) is None
    q, k = random(2, 8, 1, 64), random(2, 2, 1200, 64)
    program = program_of(graph_level(lambda q, k: masked(q, k, k, None), (q, k)))
    assert [s.callee for s in program.steps if isinstance(s, Call)] == ["lamina.attention_split", "lamina.attention_join"]
    text = untuned_note(take(program, (), HOPPER)[0], "cached")
    assert text.startswith("1 attention op, 0 by the library, by the cost model (untuned)")


def test_without_measurements_long_causal_attention_of_large_heads_is_ours() -> None:
    long = AttentionWork(4, 16, 16, 2048, 2048, 128, 128, causal=True)
    for work in (long, replace(long, kv_heads=4), replace(long, batch=2, size=256, values=256)):
        assert isinstance(default_schedule(work, HOPPER), Specialized)
    assert isinstance(default_schedule(replace(long, size=64, values=64, kv_heads=4), HOPPER), Forward)
    assert default_schedule(long, AMPERE) is None
    for change in ({"causal": False}, {"sums": True}, {"masked": True}, {"queries": 512, "keys": 512}, {"batch": 1, "heads": 1}):
        assert default_schedule(replace(long, **{"kv_heads": 1, **change}), HOPPER) is None


def test_programs_fill_the_gpu_once() -> None:
    first = candidates(DECODE, HOPPER)[0]
    assert isinstance(first, Split) and 132 <= 32 * 4 * first.parts <= 2 * 132


def asked(module: ir.Module, store: Store, monkeypatch: pytest.MonkeyPatch, winner: str) -> list[Question]:
    """The questions, each answered by the winner."""
    questions: list[Question] = []
    monkeypatch.setattr(tuner, "decide", lambda question, *_, **__: questions.append(question) or Answer(winner))
    modules.annotate(module, backend(Target.parse(TARGET)), 0, Options(tune="full"), store)
    return questions


def test_an_answer_makes_attention_ours(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def layers(q: Tensor, k: Tensor) -> Tensor:
        return plain(plain(q, k, k) + 1, k, k)

    ours = str(Forward(64, 64, 4, 4))
    module = graph_level(layers, (random(1, 2, 100, 64), random(1, 2, 100, 64)))
    (question,) = asked(module, store, monkeypatch, ours)
    assert question.what == "attention 1x2x100x64 on 1x2x100x64" and question.reference == LIBRARY == question.candidates[0]
    assert {str(c) for c in candidates(AttentionWork(1, 2, 2, 100, 100, 64, 64), HOPPER)} == set(question.candidates[1:])
    with module.context:
        assert [str(Choice.of(op, (Forward,))) for op in calls(module)] == [ours] * 2
    steps = [s for s in program_of(module).steps if isinstance(s, Call)]
    assert [s.callee for s in steps] == ["lamina.attention_forward"] * 2
    assert all(dict(s.kwargs)["schedule"] == ours for s in steps)


def test_the_library_may_win(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tuning may choose the library although the cost model would have chosen Lamina's kernel."""
    module = graph_level(lambda q, k: plain(q, k, k), (random(2, 8, 1, 64), random(2, 2, 1200, 64)))
    (question,) = asked(module, store, monkeypatch, LIBRARY)
    assert question.candidates[0].startswith("split{") and question.candidates[1] == LIBRARY
    (step,) = program_of(module).steps
    assert isinstance(step, Call) and step.callee == "aten._scaled_dot_product_cudnn_attention.default"


def compiled(program: Program, gpu: Gpu) -> tuple[Program, GpuArtifact]:
    program, ready = take(program, (), gpu)
    with ir.Context(), ir.Location.unknown():
        artifact = backend(Target.parse(f"nvvm:{gpu.arch}")).compile(ir.Module.create(), ready)
    assert isinstance(artifact, GpuArtifact)
    return program, artifact


@pytest.mark.parametrize("gpu", [HOPPER, AMPERE], ids=["sm_90a", "sm_80"])
@pytest.mark.parametrize("size", [64, 128, 256])
def test_code_keeps_all_in_registers(size: int, gpu: Gpu) -> None:
    """Compiles each candidate; of those that differ only in the number of parts, one."""
    many = random(1, 2, 512, size), random(1, 1, 512, size), random(1, 1, 512, size)
    few = random(2, 8, 1, size), *(random(2, 2, 4096, size) for _ in range(2))
    works = [
        (many, AttentionWork(1, 2, 1, 512, 512, size, size, True), lambda q, k, v: plain(q, k, v, True)),
        (few, AttentionWork(2, 8, 2, 1, 4096, size, size), plain),
    ]
    for inputs, work, fn in works:
        module = graph_level(fn, inputs)
        text = str(module)
        for config in {str(c).replace(f"parts={getattr(c, 'parts', 0)}", "parts=4") for c in candidates(work, gpu)}:
            program, artifact = compiled(program_of(ir.Module.parse(text, module.context), config), gpu)
            assert all(isinstance(s, Launch) for s in program.steps)
            assert all(r.spill_stores == r.spill_loads == 0 for r in artifact.resources), (config, artifact.resources)
            assert all(needs.shared <= gpu.shared_bytes for needs in artifact.needs.values())


@pytest.mark.parametrize("reads", [False, True])
def test_code_asks_for_no_more_shared_memory_than_there_is(reads: bool) -> None:
    """For heads of 256 elements the first choice needed 104 KiB, and many GPUs have 99."""
    gpu, known = (
        Gpu.named("sm_86"),
        AttentionWork(1, 2, 2, 512, 512, 256, 256, window=0 if reads else 100, masked=reads, has_known_mask=True),
    )
    inputs = (random(1, 2, 512, 256), torch.zeros(1, 512, dtype=torch.bool))

    def fn(q: Tensor, there: Tensor) -> Tensor:
        at = torch.arange(512)
        windows = (at > at[:, None] - 100) & (at <= at[:, None])
        return masked(q, q, q, there[:, None, None] if reads else windows[None, None])

    chosen = default_schedule(known, gpu)
    assert chosen is not None
    _, artifact = compiled(program_of(graph_level(fn, inputs), str(chosen)), gpu)
    assert max(need.shared for need in artifact.needs.values()) <= gpu.shared_bytes


class Decode(torch.nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def test_its_text_at_every_level() -> None:
    inputs = (random(2, 32, 1, 128), random(2, 4, 2048, 128), random(2, 4, 2048, 128))
    texts = {level: emit(Decode(), inputs, target=TARGET, level=level, options=Options()) for level in ("triton", "ptx")}
    assert "def custom_attention_split(x0, x1, x2, y0, y1):" in texts["triton"] and "\ndef split(" in texts["triton"]
    assert ".entry custom_attention_split(" in texts["ptx"] and ".entry custom_attention_join(" in texts["ptx"]


def test_a_model_without_kernels_says_so() -> None:
    with pytest.raises(CompileError, match="every step is a call of a library"):
        emit(torch.nn.Linear(64, 64, bias=False).bfloat16(), (random(256, 64),), target=TARGET, level="ptx", options=Options())
