"""`lamina.attention` and its gradients, as custom ops: attention stays one op until a kernel is chosen for it.

It is an op before gradients are traced, so that both passes have one form, whatever kernels compute them: what is saved between
them is the result, the logarithms of the sums and, with dropout, a seed.

The bodies here are reference implementations in torch's ops, for graphs that run without being compiled. They need memory for all
weights.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lamina.core.dropout import keep_bound, keep_scale

from ..fx.random_bits import philox


@torch.library.custom_op("lamina::attention", mutates_args=())
def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, seed: Tensor | None, dropout: float, causal: bool, scale: float,
    allowed: str, cap: float = 0.0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Returns (softmax(scale * query @ key.T, masked) * kept / (1 - dropout)) @ value, and the natural logarithms of the sums of
    exponentials, (batch, heads, queries) f32 (f64 for f64), infinity for rows that see nothing.

    query        (batch, heads, queries, size)
    key, value   as many heads as the query, or a divisor of that many (grouped-query attention)
    mask         four dimensions, each that of the scores or 1: added to the scores, or bool (true: seen), which no vendor's kernel
                 reads
    seed         i64, of no dimensions, where weights are dropped: which ones follows from it
    dropout      the probability of a weight to be dropped, 0 without a seed
    causal       query i sees keys 0 to i
    allowed      torch's fused kernels that its settings allow (passes/families/attention/torch_kernels/)
    cap          soft cap: scaled scores become cap * tanh(score / cap) before the mask; 0: they stay
    """
    scores = _masked(_scores(query, key, scale, cap), mask, causal)
    sums = scores.logsumexp(-1)
    sums = sums.masked_fill(sums == -torch.inf, torch.inf)
    weights = (scores - sums[..., None]).exp() * _factors(seed, scores, dropout)
    out, logs = _results(query, value)
    return out.copy_(weights @ _wide(value, query)), logs.copy_(sums)


@attention.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return _results(query, value)


@torch.library.custom_op("lamina::attention_backward", mutates_args=())
def attention_backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, out: Tensor, sums: Tensor, seed: Tensor | None,
    dropout: float, causal: bool, scale: float, allowed: str, trains_mask: bool, cap: float = 0.0,
) -> list[Tensor]:  # fmt: skip
    """Returns the gradients of query, key and value, and of the mask where `trains_mask`. out, sums: results of forward."""
    scores_unmasked = _scores(query, key, scale, cap)
    scores = _masked(scores_unmasked, mask, causal)
    grads = grad.to(scores.dtype)
    weights, factors = (scores - sums[..., None]).exp(), _factors(seed, scores, dropout)
    delta = (grads * out.to(scores.dtype)).sum(-1, keepdim=True)
    d_masked = weights * (factors * (grads @ _wide(value, query).mT) - delta)
    d_scores = d_masked * (1 - (scores_unmasked / cap) ** 2) if cap else d_masked
    shared = (query.shape[1] // key.shape[1], -1)
    d_key = (d_scores.mT @ query.to(scores.dtype)).unflatten(1, shared[::-1]).sum(2) * scale
    d_value = ((weights * factors).mT @ grads).unflatten(1, shared[::-1]).sum(2)
    exact = [d_scores @ _wide(key, query) * scale, d_key, d_value]
    gradients = _gradients(query, key, value, mask if trains_mask else None)
    if mask is not None and trains_mask:
        exact.append(d_masked.sum_to_size(mask.shape))
    return [made.copy_(true) for made, true in zip(gradients, exact, strict=True)]


@attention_backward.register_fake
def _(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, out: Tensor, sums: Tensor, seed: Tensor | None,
    dropout: float, causal: bool, scale: float, allowed: str, trains_mask: bool, cap: float = 0.0,
) -> list[Tensor]:  # fmt: skip
    return _gradients(query, key, value, mask if trains_mask else None)


ATTENTION: Any = torch.ops.lamina.attention.default


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:5], *output)
    ctx.how = inputs[5:]
    ctx.mark_non_differentiable(output[1])


def _differentiate(ctx: Any, grad: Tensor, _: object) -> tuple[Tensor | None, ...]:
    query, key, value, mask, seed, out, sums = ctx.saved_tensors
    back = torch.ops.lamina.attention_backward.default
    *how, cap = ctx.how
    made = back(grad, query, key, value, mask, out, sums, seed, *how, ctx.needs_input_grad[3], *([cap] if cap else []))
    return (*made, *[None] * (10 - len(made)))


attention.register_autograd(_differentiate, setup_context=_save)


def _results(query: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Allocates both results. The first has the query's order of dimensions in memory, as with torch's fused kernels, except for
    the one for f32 on GPUs."""
    shape = (*query.shape[:3], value.shape[3])
    order = sorted(range(4), key=query.stride().__getitem__, reverse=True)
    if query.device.type == "cuda" and query.dtype is torch.float32:
        order = [0, 2, 1, 3]
    elif shape == query.shape:
        return torch.empty_like(query), query.new_empty(shape[:3], dtype=accumulation_dtype(query))
    out = torch.empty_permuted(shape, order, dtype=query.dtype, device=query.device)
    return out, query.new_empty(shape[:3], dtype=accumulation_dtype(query))


def _gradients(*tensors: Tensor | None) -> list[Tensor]:
    """Allocates gradients as torch's kernels do: on CPUs the heads of a position lie side by side."""
    given = [t for t in tensors if t is not None]
    if given[0].device.type != "cpu":
        return [torch.empty_like(t) for t in given]
    return [torch.empty_permuted(t.shape, (0, 2, 1, 3), dtype=t.dtype, device=t.device) for t in given]


def accumulation_dtype(query: Tensor) -> torch.dtype:
    """Returns the dtype of scores and of their sums."""
    return torch.float64 if query.dtype is torch.float64 else torch.float32


def _wide(shared: Tensor, query: Tensor) -> Tensor:
    return shared.to(accumulation_dtype(query)).repeat_interleave(query.shape[1] // shared.shape[1], 1)


def _scores(query: Tensor, key: Tensor, scale: float, cap: float) -> Tensor:
    scores = query.to(accumulation_dtype(query)) @ _wide(key, query).mT * scale
    return cap * torch.tanh(scores / cap) if cap else scores


def _masked(scores: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else scores + mask.to(scores.dtype)
    if causal:
        scores = scores.masked_fill(~torch.ones_like(scores[0, 0], dtype=torch.bool).tril(), -torch.inf)
    return scores


def _factors(seed: Tensor | None, scores: Tensor, dropout: float) -> Tensor | float:
    """Returns the factor of each weight: 0 where it is dropped, else 1 / (1 - dropout)."""
    return 1.0 if seed is None else kept_weights(seed, scores.shape, dropout) * keep_scale(dropout)


def kept_weights(seed: Tensor, scores: Sequence[int], dropout: float) -> Tensor:
    """Returns which weights, (batch, heads, queries, keys), are not dropped with this probability; bool.

    This is what kernels/attention/dropped.py computes, in torch's ops. The counter of query i and key j of a head is (8 * (j // 32)
    + j % 8, 8 * (i // 16) + i % 8, head). The word is number 2 * (i // 8 % 2) + j // 8 % 2; its upper half is for odd j // 16.
    """
    batch, heads, queries, keys = scores
    counts = batch * heads, -(-queries // 16) * 8, -(-keys // 32) * 8
    head, row, column = (torch.arange(n, device=seed.device) for n in counts)
    words = philox(torch.broadcast_tensors(column, row[:, None], head[:, None, None], torch.zeros_like(column)), seed)
    halves = torch.stack([words & 0xFFFF, words >> 16], -1)
    split = halves.view(batch, heads, len(row) // 8, 8, len(column) // 8, 8, 2, 2, 2)
    whole = split.permute(0, 1, 2, 6, 3, 4, 8, 7, 5).reshape(batch, heads, 2 * len(row), 4 * len(column))
    return whole[:, :, :queries, :keys] < keep_bound(dropout)
