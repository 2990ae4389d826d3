"""Compares parts of models that torch decomposes, or models write out, with float64 on a GPU: values and gradients."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

BF16 = torch.bfloat16


def near(fn: Callable[..., Tensor], compiled: Callable[..., Tensor], *args: Tensor, train: bool, bound: float) -> None:
    """Compares results and, in training, gradients with float64: at most twice eager's distance, or `bound` of the norm."""

    def run(f: Callable[..., Tensor], dtype: torch.dtype) -> list[Tensor]:
        given = [a.detach().to(dtype).requires_grad_(train) for a in args]
        out = f(*given)
        return [out.detach(), *(torch.autograd.grad(out, given, torch.ones_like(out)) if train else ())]

    dtype = args[0].dtype
    for mine, eager, want in zip(run(compiled, dtype), run(fn, dtype), run(fn, torch.float64), strict=True):
        off, of_eager = ((t.double() - want).norm() / want.norm() for t in (mine, eager))
        assert off <= max(bound, 2 * of_eager)


def capped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention whose scores are capped by a tanh, written out, with two heads of queries to one of keys."""
    n = q.shape[2]
    scores = q @ k.repeat_interleave(2, 1).transpose(2, 3) * 0.0625
    scores = torch.tanh(scores / 50.0) * 50.0
    scores = scores + torch.full((n, n), -3e38, dtype=scores.dtype, device=q.device).triu(1)
    wide = torch.promote_types(q.dtype, torch.float32)
    return F.softmax(scores, -1, dtype=wide).to(q.dtype) @ v.repeat_interleave(2, 1)


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_attention_with_a_written_out_soft_cap(train: bool, dynamic: bool) -> None:
    compiled = torch.compile(capped, backend="lamina", dynamic=dynamic)
    for n in (512, 1000) if dynamic else (1024,):
        heads = [torch.randn(2, h, n, 128, device="cuda", dtype=BF16) for h in (8, 4, 4)]
        near(capped, compiled, *heads, train=train, bound=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, BF16], ids=str)
def test_weight_norm(dtype: torch.dtype) -> None:
    def normed(v: Tensor, g: Tensor) -> Tensor:
        return torch._weight_norm(v, g, 0)

    v, g = (torch.randn(shape, device="cuda", dtype=dtype) for shape in ((257, 33, 7), (257, 1, 1)))
    near(normed, torch.compile(normed, backend="lamina"), v, g, train=True, bound=1e-5 if dtype == torch.float32 else 2e-2)


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("groups", [8, 40])
@pytest.mark.parametrize("to", [torch.channels_last, torch.contiguous_format], ids=["channels_last", "transposed"])
def test_group_norm_with_channels_last(groups: int, to: torch.memory_format, train: bool) -> None:
    """Groups of 40 and 8 channels, far from zero, whose rows consist of pieces shorter than a cache line."""

    def normed(a: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.silu(F.group_norm(a, groups, w, b)).contiguous(memory_format=to)

    image = (torch.randn(2, 320, 64, 64, device="cuda") + 100).contiguous(memory_format=torch.channels_last)
    weight, bias = torch.randn(2, 320, device="cuda")
    near(normed, torch.compile(normed, backend="lamina"), image, weight, bias, train=train, bound=1e-4)
