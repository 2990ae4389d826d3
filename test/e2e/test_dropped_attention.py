"""Tests attention with dropout, through both entry points, in the graphs for a GPU: one Lamina op with a seed, and its gradients.

Here the front end takes the CPU for a GPU, so torch's ops stand for the kernels (test/unit/test_attention_dropout.py holds those to
them).
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from entry_points import BACKEND, NO_CACHE
from torch import Tensor, nn

import lamina
from lamina.frontend.attention import recognize
from lamina.frontend.attention.op import kept_weights
from lamina.frontend.fx.random_bits import draw_seed
from lamina.passes.families.attention.torch_kernels.cudnn import CudnnKernel
from lamina.passes.families.attention.torch_kernels.flash import FlashKernel

STRICT = {**NO_CACHE, "strict": True}
BF16 = torch.bfloat16
OURS = ["lamina.attention.default", "lamina.attention_backward.default"]
P = 0.3


@pytest.fixture(autouse=True)
def _on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(recognize, "for_gpu", lambda *_: True)
    monkeypatch.setattr(FlashKernel, "keeps_dropout", False)
    monkeypatch.setattr(CudnnKernel, "keeps_dropout", False)
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield


def sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, mask, P)


def sdpa_of_rows(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Calls attention with a mask of two dimensions, a scale and shared heads of keys, and flattens the result."""
    at = torch.arange(40)
    y = F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], at < at[:, None] + 5, dropout_p=P, scale=0.25, enable_gqa=True)
    return y.transpose(1, 2).flatten(2)


def causal(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, dropout_p=P, is_causal=True)


def written_out(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    weights = torch.softmax((q @ k.mT / 4 + mask).float(), -1).to(q.dtype)
    return F.dropout(weights, P, True) @ v


class Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(P)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        weights = self.dropout(nn.functional.softmax(torch.matmul(q, k.transpose(-1, -2)) / 4 + mask, dim=-1))
        return torch.matmul(weights, v).permute(0, 2, 1, 3).contiguous().flatten(2)


FORMS: dict[str, tuple[Callable[..., Tensor], str]] = {
    "sdpa": (sdpa, "mask"), "sdpa of rows": (sdpa_of_rows, "rows"), "causal": (causal, "causal"), "written out": (written_out, "mask"),
    "BERT": (Bert(), "mask"),
}  # fmt: skip


def random(*shape: int) -> Tensor:
    return torch.randn(shape).to(BF16)


def inputs() -> list[Tensor]:
    mask = torch.where(torch.arange(40) < torch.tensor([[40], [17]]), 0.0, -torch.inf).to(BF16)[:, None, None]
    return [*(random(2, 4, 40, 16).requires_grad_() for _ in range(3)), mask]


def exact(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, how: str) -> Tensor:
    """Computes in float64, with the random numbers that follow torch.manual_seed(3)."""
    scores = q @ k.mT / 4
    at = torch.arange(40)
    if how == "rows":
        k, v = (t[:, :2].repeat_interleave(2, 1) for t in (k, v))
        scores = (q @ k.mT / 4).masked_fill(at >= at[:, None] + 5, -torch.inf)
    elif how == "causal":
        scores = scores.masked_fill(at > at[:, None], -torch.inf)
    else:
        scores = scores + mask
    torch.manual_seed(3)
    return scores.softmax(-1) * kept_weights(draw_seed(torch.device("cpu")), scores.shape, P) / (1 - P) @ v


@pytest.mark.parametrize("name", FORMS)
def test_training(name: str) -> None:
    """Gradients use the same dropped weights as forward; a seed repeats the result, and the next call differs."""
    fn, how = FORMS[name]
    given = inputs()
    run = torch.compile(fn, backend=BACKEND, options=STRICT, dynamic=False, fullgraph=True)
    torch.manual_seed(3)
    out = run(*given)
    grad = random(*out.shape)
    found = torch.autograd.grad(out, given[:3], grad)
    wide = [t.detach().double().requires_grad_() for t in given[:3]]
    truth = exact(*wide, given[3].double(), how)
    want = torch.autograd.grad(truth, wide, (grad.unflatten(-1, (4, 16)).transpose(1, 2) if grad.dim() == 3 else grad).double())
    truth = truth.transpose(1, 2).flatten(2) if grad.dim() == 3 else truth
    for one, other in zip((out.detach(), *found), (truth.detach(), *want), strict=True):
        assert one.shape == other.shape and float((one.double() - other).norm() / other.norm()) < 8e-3
    torch.manual_seed(3)
    again, other = run(*given), run(*given)
    assert torch.equal(out, again) and not torch.equal(out, other) and out.stride() == fn(*given).stride()
    calls = [
        e.callee for graph in lamina.explain(fn, given, training=True, options=STRICT, show=False).graphs for e in graph.externals
    ]
    assert [c for c in calls if c != "aten.randint.low"] == OURS


@pytest.mark.parametrize("name", ["causal", "BERT"])
def test_export(name: str) -> None:
    """Without gradients the random numbers are the same."""
    fn, how = FORMS[name]
    given = [t.detach() for t in inputs()]
    run = lamina.compile(fn, tuple(given), options=STRICT)
    torch.manual_seed(3)
    found, truth = run(*given), exact(*(t.double() for t in given), how)
    truth = truth.transpose(1, 2).flatten(2) if found.dim() == 3 else truth
    assert float((found.double() - truth).norm() / truth.norm()) < 8e-3


def learned_mask(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return sdpa(q, k, v, q[:, :, :, :1] * mask)


def learned_bias(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.dropout((q @ k.mT + q[:, :, :, :1]).softmax(-1), P) @ v


def twice(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.dropout(F.dropout((q @ k.mT).softmax(-1), P), P) @ v


def scores_dropped(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.dropout(q @ k.mT, P).softmax(-1) @ v


def in_f32(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.dropout((q.float() @ k.float().mT).softmax(-1), P) @ v.float()


def externals(fn: Callable[..., Any]) -> list[str]:
    found = lamina.explain(fn, inputs(), training=True, options=NO_CACHE, show=False)
    return [e.callee for graph in found.graphs for e in graph.externals]


@pytest.mark.parametrize("fn", [learned_mask, learned_bias, twice, scores_dropped, in_f32])
def test_what_is_left(fn: Callable[..., Any]) -> None:
    found = externals(fn)
    assert not set(OURS) & set(found) and "aten.randint.low" in found


def test_what_a_fast_library_takes_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(recognize, "for_gpu", lambda *_: True)
    assert not set(OURS) & set(externals(causal))
