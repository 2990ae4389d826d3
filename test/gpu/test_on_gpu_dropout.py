"""Tests attention with dropout on a GPU: forward and gradients of Lamina kernels against float64 with the same random numbers,
seeds, and replays."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from entry_points import by_dynamo, by_export
from test_on_gpu_attention_backward import computed, near
from torch import Tensor, nn

import lamina
from lamina.core.gpu import Gpu
from lamina.frontend.attention.op import ATTENTION, kept_weights
from lamina.frontend.fx.random_bits import draw_seed
from lamina.passes.families.attention.cost import AttentionWork, default_schedule
from lamina.passes.families.attention.torch_kernels.cudnn import CudnnKernel
from lamina.passes.families.attention.torch_kernels.flash import FlashKernel
from lamina.passes.families.attention.torch_kernels.registry import TORCH_KERNELS

BF16, F16 = torch.bfloat16, torch.float16
P = 0.2
OURS = ["attention_forward", "attention_backward_queries", "attention_backward_keys"]


def random(*shape: int, dtype: torch.dtype = BF16) -> Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def exact(operands: Sequence[Tensor], seed: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
    """In float64."""
    q, *shared = operands
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in shared)
    scores = q @ k.mT * q.shape[-1] ** -0.5
    scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    if causal:
        scores = scores.masked_fill(~torch.ones_like(scores[0, 0], dtype=torch.bool).tril(), -torch.inf)
    weights = torch.nan_to_num(scores.softmax(-1))
    return weights * kept_weights(seed, scores.shape, P) / (1 - P) @ v


@pytest.mark.parametrize(("size", "length", "how", "dtype"), [(64, 333, "causal", BF16), (128, 200, "bool", F16)])
def test_both_passes(size: int, length: int, how: str, dtype: torch.dtype) -> None:
    """With the schedules that are chosen unmeasured, and shared heads."""
    q, grad, k, v = (random(2, n, length, size, dtype=dtype) for n in (4, 4, 2, 2))
    mask = [torch.rand(2, 1, length, length, device="cuda") > 0.3] if how == "bool" else []
    seed, causal, scale = torch.tensor(2**61 + 12345, device="cuda"), how == "causal", size**-0.5

    def fn(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, seed: Tensor, *mask: Tensor) -> Sequence[Tensor]:
        given = mask[0] if mask else None
        out, sums = ATTENTION(q, k, v, given, seed, P, causal, scale, TORCH_KERNELS)
        back = torch.ops.lamina.attention_backward.default
        return out, *back(grad, q, k, v, given, out, sums, seed, P, causal, scale, TORCH_KERNELS, False)

    gpu = Gpu.of_capability(*torch.cuda.get_device_capability())
    work = AttentionWork(2, 4, 2, length, length, size, size, causal, bool(mask), True, has_dropout=True)
    schedules = (default_schedule(work, gpu), default_schedule(replace(work, backward=True), gpu))
    found = computed(fn, (grad, q, k, v, seed, *mask), "; ".join(map(str, schedules)))
    wide = [t.double().requires_grad_() for t in (q, k, v)]
    out = exact(wide, seed, mask[0] if mask else None, causal)
    for one, want in zip(found, (out.detach(), *torch.autograd.grad(out, wide, grad.double())), strict=True):
        near(one, want)


def with_mask(q: Tensor, k: Tensor, v: Tensor, there: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, there, P)


def written_out(q: Tensor, k: Tensor, v: Tensor, there: Tensor) -> Tensor:
    scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~there, -torch.inf)
    return F.dropout(scores.softmax(-1), P) @ v


def test_training() -> None:
    """Attention is written out: gradients use the same dropped weights as forward, and no weights are stored."""
    fn = written_out
    q, k, v = (random(2, 4, 300, 64).requires_grad_() for _ in range(3))
    there = (torch.arange(300, device="cuda") < torch.tensor([[300], [170]], device="cuda"))[:, None, None]
    run = by_dynamo(fn, (q, k, v, there))
    run(q, k, v, there)
    torch.manual_seed(3)
    out = run(q, k, v, there)
    grad = torch.randn_like(out)
    found = torch.autograd.grad(out, (q, k, v), grad)
    torch.manual_seed(3)
    seed = draw_seed(q.device)
    wide = [t.detach().double().requires_grad_() for t in (q, k, v)]
    want = exact(wide, seed, there)
    for one, other in zip((out, *found), (want, *torch.autograd.grad(want, wide, grad.double())), strict=True):
        near(one.detach(), other.detach())
    graphs = lamina.explain(fn, (q, k, v, there), training=True, options={"cache": False}, show=False).graphs
    names = [kernel.name for graph in graphs for kernel in graph.kernels]
    assert [n for n in names if n in OURS] == OURS, names
    assert all(e.callee == "aten.randint.low" for graph in graphs for e in graph.externals)


@pytest.mark.parametrize("graphs", [True, False])
def test_replays_draw_anew(graphs: bool) -> None:
    """Replays draw new numbers, which manual_seed repeats, recorded or not."""
    q, there = random(2, 4, 256, 64), torch.ones(1, 1, 1, 256, dtype=torch.bool, device="cuda")
    run = lamina.compile(written_out, (q, q, q, there), options={"cuda_graphs": graphs})
    for _ in range(3):
        run(q, q, q, there)
    torch.manual_seed(3)
    first, second = run(q, q, q, there).clone(), run(q, q, q, there).clone()
    torch.manual_seed(3)
    assert torch.equal(run(q, q, q, there), first) and not torch.equal(first, second)
    torch.manual_seed(3)
    near(first, exact([q.double()] * 3, draw_seed(q.device)))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(256, 768), nn.Linear(256, 256)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (4, 64)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=P, is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


def test_a_layer_without_a_mask() -> None:
    """torch's kernels are kept in both passes."""
    model, x = Layer().cuda().to(BF16), random(2, 333, 256).requires_grad_()
    found = lamina.explain(model, (x,), training=True, options={"cache": False}, show=False)
    callees = [e.callee for graph in found.graphs for e in graph.externals if "attention" in e.callee]
    assert len(callees) == 2 and all(c.startswith("aten.") for c in callees), callees
    for g in torch.autograd.grad(by_dynamo(model, (x,))(x).float().square().sum(), (x, *model.parameters())):
        assert g.isfinite().all() and g.abs().sum() > 0


def test_lists_of_blocks_in_gradients() -> None:
    """The mask consists of squares: skipping the other blocks changes nothing."""
    q, grad, k = (random(1, 2, n, 64) for n in (700, 700, 700))
    at = torch.arange(700, device="cuda") // 200
    mask, seed = (at[:, None] == at)[None, None], torch.tensor(7, device="cuda")

    def fn(grad: Tensor, q: Tensor, k: Tensor, mask: Tensor, seed: Tensor) -> Sequence[Tensor]:
        out, sums = ATTENTION(q, k, k, mask, seed, P, False, 0.125, TORCH_KERNELS)
        back = torch.ops.lamina.attention_backward.default
        return out, *back(grad, q, k, k, mask, out, sums, seed, P, False, 0.125, TORCH_KERNELS, False)

    found = computed(fn, (grad, q, k, mask, seed), "forward{m=64 n=64 blocks=1}; backward{m=64 n=64 keys=64 queries=64 blocks=1}")
    wide = [t.double().requires_grad_() for t in (q, k, k.clone())]
    out = exact(wide, seed, mask)
    for one, want in zip(found, (out.detach(), *torch.autograd.grad(out, wide, grad.double())), strict=True):
        near(one, want)


def timed(fn: Callable[[], Any], count: int = 10) -> float:
    """Microseconds of the GPU for one call."""
    for _ in range(5):
        fn()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(count):
        fn()
    end.record()
    torch.cuda.synchronize()
    return 1e3 * start.elapsed_time(end) / count


@pytest.mark.parametrize(("batch", "heads", "length", "size"), [(16, 12, 2048, 64), (4, 16, 4096, 128)])
def test_beside_the_library(batch: int, heads: int, length: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prints the time of both passes (pytest -s), causal and without a mask, by torch and by Lamina kernels: `keeps_dropout` of
    torch's kernels is to be decided by it."""
    q, k, v = (random(batch, heads, length, size).requires_grad_() for _ in range(3))
    grad = random(batch, heads, length, size)

    def fn(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)

    taken = {}
    for name, kept in (("torch's", True), ("ours", False)):
        for kernel in (FlashKernel, CudnnKernel):
            monkeypatch.setattr(kernel, "keeps_dropout", kept)
        torch._dynamo.reset()
        run = torch.compile(fn, backend="lamina", options={"cache": False, "cuda_graphs": False})
        taken[name] = timed(lambda run=run: torch.autograd.grad(run(q, k, v), (q, k, v), grad))  # type: ignore[misc]
    print(f"\nb{batch} h{heads} s{length} d{size} causal, dropout 0.1, both passes:", {n: f"{t:.0f} us" for n, t in taken.items()})
    assert all(t > 0 for t in taken.values())


def test_no_gradients_through_export() -> None:
    """A model compiled ahead of time draws the same numbers as torch.compile."""
    q, there = random(1, 2, 100, 64), torch.ones(1, 1, 1, 100, dtype=torch.bool, device="cuda")
    found = []
    with torch.no_grad():
        for entry_point in (by_export, by_dynamo):
            run = entry_point(with_mask, (q, q, q, there))
            torch.manual_seed(3)
            found.append(run(q, q, q, there))
    assert torch.equal(*found)
