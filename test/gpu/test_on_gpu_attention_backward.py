"""Tests attention's gradients by Lamina kernels on a GPU: schedules against float64, and combined with each library's forward or
backward pass."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from attention_programs import graph_level, program_of
from attention_training import backward, exact_gradients, exact_sums
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch_mlir import ir

import lamina
from lamina.core.gpu import Gpu
from lamina.core.program_needs import with_needs
from lamina.core.target import Target
from lamina.passes.families import choice as choices
from lamina.passes.families.attention.cost import AttentionWork, candidates
from lamina.runtime.executable import Executable
from lamina.targets import backend
from lamina.targets.kernel_calls.user import take
from lamina.tune import tuner
from lamina.tune.question import Answer, Question

LIBRARY = str(choices.LIBRARY)

BF16, F16 = torch.bfloat16, torch.float16
OURS = "ours"


def gpu() -> Gpu:
    return Gpu.of_capability(*torch.cuda.get_device_capability())


def random(*shape: int, dtype: torch.dtype = BF16) -> Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def computed(fn: Callable[..., Any], inputs: Sequence[Tensor], schedule: str) -> list[Tensor]:
    """By a schedule. The function is traced on the CPU, for a GPU."""
    program = program_of(graph_level(fn, [torch.empty_like(x, device="cpu") for x in inputs]), schedule)
    program, ready = take(program, (), gpu())
    with ir.Context(), ir.Location.unknown():
        artifact = backend(Target.parse(f"nvvm:{gpu().arch}")).compile(ir.Module.create(), ready)
    run = Executable(with_needs(program, artifact.needs), artifact)
    run.load(0)
    return list(run(*inputs))


def near(found: Tensor, want: Tensor, bound: float = 1e-2) -> None:
    assert found.shape == want.shape and bool(found.isfinite().all())
    far = float((found.double() - want).norm() / want.norm())
    assert far <= bound, far


@pytest.mark.parametrize(
    ("size", "dtype", "number"), [(64, BF16, 0), (64, F16, 1), (80, BF16, 1), (128, BF16, 0), (128, F16, 1), (256, BF16, 0)]
)
def test_schedules(size: int, dtype: torch.dtype, number: int) -> None:
    """With shared heads, causal, at an odd length; two runs give the same bits."""
    q, grad, k, v = (random(2, n, 333, size, dtype=dtype) for n in (4, 4, 2, 2))
    sums = exact_sums(q, k, causal=True)
    wide_k, wide_v = (t.double().repeat_interleave(2, 1) for t in (k, v))
    weights = (q.double() @ wide_k.mT * size**-0.5 - sums[..., None]).exp().tril()
    out = (weights @ wide_v).to(dtype)

    def fn(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, sums: Tensor) -> tuple[Tensor, ...]:
        return backward(grad, q, k, v, (out, sums), None, True)

    config = candidates(AttentionWork(2, 4, 2, 333, 333, size, size, causal=True, backward=True), gpu())[number]
    inputs = (grad, q, k, v, out, sums.float())
    found, again = (computed(fn, inputs, str(config)) for _ in range(2)) if number else (computed(fn, inputs, str(config)),) * 2
    for one, other, want in zip(found, again, exact_gradients(grad, q, k, v, None, True), strict=True):
        near(one, want)
        assert torch.equal(one, other)


class Layer(nn.Module):
    """Attention of 4 heads on `kv_heads`, between two products."""

    def __init__(self, kv_heads: int) -> None:
        super().__init__()
        self.sizes = [256, 64 * kv_heads, 64 * kv_heads]
        self.qkv, self.out = nn.Linear(256, sum(self.sizes)), nn.Linear(256, 256)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (t.unflatten(-1, (-1, 64)).transpose(1, 2) for t in self.qkv(x).split(self.sizes, -1))
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None, enable_gqa=k.shape[1] < q.shape[1])
        return x + self.out(y.transpose(1, 2).flatten(2))


def check(monkeypatch: pytest.MonkeyPatch, library: SDPBackend, passes: tuple[str, str], kv_heads: int, *args: Tensor) -> None:
    """Gradients through torch.compile, where tuning has chosen `passes`, forward and backward, and the rest is the library's."""
    asked: list[str] = []

    def decide(question: Question, *_: object, **__: object) -> Answer:
        asked.append(question.what)
        wanted = passes["backward" in question.what] if question.what.startswith("attention") else LIBRARY
        return Answer(next(name for name in question.candidates if (name == LIBRARY) == (wanted == LIBRARY)))

    monkeypatch.setattr(tuner, "decide", decide)
    torch._dynamo.reset()
    model, exact = Layer(kv_heads).cuda().bfloat16(), Layer(kv_heads).cuda().double()
    exact.load_state_dict(model.state_dict())
    x, y = args[0].requires_grad_(), args[0].detach().double().requires_grad_()
    run = torch.compile(model, backend="lamina", options={"tune": "quick", "cache": False, "strict": True})
    with sdpa_kernel(library):
        for _ in range(2):
            mine = torch.autograd.grad(run(x, *args[1:]).float().square().sum(), (x, *model.parameters()))
    with sdpa_kernel(SDPBackend.MATH):
        masks = [m.double() for m in args[1:]]
        want = torch.autograd.grad(exact(y, *masks).square().sum(), (y, *exact.parameters()))
    for a, b in zip(mine, want, strict=True):
        near(a, b, 2e-2)
    assert sum(what.startswith("attention backward") for what in asked) == 1 and any(w.endswith("for training") for w in asked)


@pytest.mark.parametrize("passes", [(OURS, LIBRARY), (LIBRARY, OURS)])
@pytest.mark.parametrize("library", [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION])
def test_one_pass_may_be_the_librarys(library: SDPBackend, passes: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's pass reads results of Lamina's, or the reverse; also at a length that the memory-efficient kernel pads."""
    check(monkeypatch, library, passes, 4, random(2, 333, 256))


def test_both_passes_of_shared_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    check(monkeypatch, SDPBackend.FLASH_ATTENTION, (OURS, OURS), 2, random(2, 333, 256))


def test_both_passes_with_a_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = torch.where(torch.rand(2, 1, 1, 320, device="cuda") > 0.3, 0.0, -torch.inf).to(BF16)
    check(monkeypatch, SDPBackend.EFFICIENT_ATTENTION, (OURS, OURS), 4, random(2, 320, 256), mask)


def test_gradients_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Next to the library's, with which they must agree."""
    monkeypatch.setenv("LAMINA_TUNE_STORE", str(tmp_path / "store.json"))
    q, k, v = (random(2, 4, 500, 64).requires_grad_() for _ in range(3))

    def fn(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    found = lamina.explain(fn, (q, k, v), training=True, options={"tune": "quick", "cache": False}, show=False)
    choices = {c.what: c for graph in found.graphs for c in graph.choices}
    choice = choices["attention backward 2x4x500x64 on 2x4x500x64, causal"]
    assert LIBRARY in dict(choice.seconds) and any(name.startswith("backward{") for name, _ in choice.seconds)
    assert not choice.dropped, choice.dropped
