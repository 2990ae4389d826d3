"""Attention as graphs for training call it, and its gradients in float64."""

from collections.abc import Sequence
from typing import Any

import torch
from attention_programs import aten
from torch import Tensor

KINDS = ("flash", "efficient", "cudnn")


def forward(
    kind: str, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False, scale: float | None = None
) -> Sequence[Any]:
    """The result, the logarithms of sums, and the two numbers that dropout begins with."""
    if kind == "flash":
        found = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, scale=scale)
    elif kind == "efficient":
        return tuple(aten._scaled_dot_product_efficient_attention(q, k, v, mask, True, 0.0, causal, scale=scale))
    else:
        found = aten._scaled_dot_product_cudnn_attention(q, k, v, mask, True, 0.0, causal, scale=scale)
    return found[0], found[1], found[6], found[7]


def backward(
    kind: str, grad: Tensor, q: Tensor, k: Tensor, v: Tensor, made: Sequence[Any], mask: Tensor | None = None, causal: bool = False,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """made: what `forward` found."""
    out, sums, *seeds = made
    longest = q.shape[2], k.shape[2]
    if kind == "flash":
        found = aten._scaled_dot_product_flash_attention_backward(
            grad, q, k, v, out, sums, None, None, *longest, 0.0, causal, *seeds, scale=scale
        )
    elif kind == "efficient":
        wanted = [True, True, True, False]
        found = aten._scaled_dot_product_efficient_attention_backward(
            grad, q, k, v, mask, out, sums, *seeds, 0.0, wanted, causal, scale=scale
        )
    else:
        found = aten._scaled_dot_product_cudnn_attention_backward(
            grad, q, k, v, out, sums, *seeds, mask, None, None, *longest, 0.0, causal, scale=scale
        )
    return found[0], found[1], found[2]


def _scores(q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, scale: float | None) -> Tensor:
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else scores + mask.double()
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril(), -torch.inf)
    return scores


def exact_sums(q: Tensor, k: Tensor, mask: Tensor | None = None, causal: bool = False, scale: float | None = None) -> Tensor:
    """(batch, heads, queries) in float64; infinity for rows that see nothing."""
    sums = _scores(q.double(), k.double(), mask, causal, scale).logsumexp(-1)
    return sums.masked_fill(sums == -torch.inf, torch.inf)


def exact_gradients(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False, scale: float | None = None
) -> tuple[Tensor, ...]:
    """In float64, by autograd; rows that see nothing have no part in them."""
    q, k, v = wide = [t.detach().double().requires_grad_() for t in (q, k, v)]
    scores = _scores(q, k, mask, causal, scale)
    blind = (scores == -torch.inf).all(-1, keepdim=True)
    weights = torch.where(blind, 0.0, torch.where(blind, 0.0, scores).softmax(-1))
    out = weights @ v.repeat_interleave(q.shape[1] // v.shape[1], 1)
    return torch.autograd.grad(out, wide, grad.double())
