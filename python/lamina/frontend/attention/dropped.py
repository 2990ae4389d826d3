"""`lamina.dropped_attention`: attention with dropout and its gradients, as custom ops that Lamina's kernels compute.

The seed decides which weights are dropped. It comes from torch's generator, and the gradients read it too. Libraries draw in
another order, so Lamina's kernels compute both passes or the library does; a custom op settles that once, before there are separate
forward and backward graphs.

The bodies here are reference implementations in torch's ops, for graphs that run without being compiled. They need memory for all
weights.
"""

from typing import Any

import torch
from torch import Tensor

from lamina.core.dropout import factor

from ..fx.random_bits import keeps


@torch.library.custom_op("lamina::dropped_attention", mutates_args=())
def dropped_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, seed: Tensor, dropout: float, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """Returns (softmax(scale * query @ key.T, masked) * kept / (1 - dropout)) @ value, and the natural logarithms of the sums of
    exponentials, (batch, heads, queries) f32, infinity for rows that see nothing.

    query        (batch, heads, queries, size)
    key, value   as many heads as the query, or a divisor of that many (grouped-query attention)
    mask         four dimensions, each that of the scores or 1: bool (true: seen) or added
    seed         i64, of no dimensions
    dropout      the probability of a weight to be dropped, above 0, to 1
    causal       query i sees keys 0 to i
    """
    scores = _scores(query, key, mask, causal, scale)
    sums = scores.logsumexp(-1)
    sums = sums.masked_fill(sums == -torch.inf, torch.inf)
    weights = (scores - sums[..., None]).exp() * _factors(seed, scores, dropout)
    out, logs = _results(query, value)
    return out.copy_(weights @ _wide(value, query)), logs.copy_(sums)


@dropped_attention.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return _results(query, value)


@torch.library.custom_op("lamina::dropped_attention_backward", mutates_args=())
def dropped_attention_backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, out: Tensor, sums: Tensor, seed: Tensor,
    dropout: float, causal: bool, scale: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Returns the gradients of query, key and value. out, sums: the results of the forward pass."""
    scores, grads = _scores(query, key, mask, causal, scale), grad.float()
    weights, factors = (scores - sums[..., None]).exp(), _factors(seed, scores, dropout)
    delta = (grads * out.float()).sum(-1, keepdim=True)
    d_scores = weights * (factors * (grads @ _wide(value, query).mT) - delta) * scale
    d_query, d_key, d_value = (torch.empty_like(t) for t in (query, key, value))
    d_query.copy_(d_scores @ _wide(key, query))
    shared = (query.shape[1] // key.shape[1], -1)
    d_key.copy_((d_scores.mT @ query.float()).unflatten(1, shared[::-1]).sum(2))
    d_value.copy_(((weights * factors).mT @ grads).unflatten(1, shared[::-1]).sum(2))
    return d_query, d_key, d_value


@dropped_attention_backward.register_fake
def _(grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


DROPPED: Any = torch.ops.lamina.dropped_attention.default


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, dropout, causal, scale = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.numbers = dropout, causal, scale
    ctx.mark_non_differentiable(output[1])


def _gradients(ctx: Any, grad: Tensor, _: object) -> tuple[Tensor | None, ...]:
    query, key, value, mask, seed, out, sums = ctx.saved_tensors
    made = torch.ops.lamina.dropped_attention_backward.default(grad, query, key, value, mask, out, sums, seed, *ctx.numbers)
    return (*made, None, None, None, None, None)


dropped_attention.register_autograd(_gradients, setup_context=_keep)


def _results(query: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Allocates both results. The heads of a position lie side by side, as in the library's results."""
    batch, heads, queries, _ = query.shape
    out = query.new_empty(batch, queries, heads, value.shape[3]).transpose(1, 2)
    return out, query.new_empty(batch, heads, queries, dtype=torch.float32)


def _wide(shared: Tensor, query: Tensor) -> Tensor:
    return shared.float().repeat_interleave(query.shape[1] // shared.shape[1], 1)


def _scores(query: Tensor, key: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Tensor:
    scores = query.float() @ _wide(key, query).mT * scale
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else scores + mask.float()
    if causal:
        scores = scores.masked_fill(~torch.ones_like(scores[0, 0], dtype=torch.bool).tril(), -torch.inf)
    return scores


def _factors(seed: Tensor, scores: Tensor, dropout: float) -> Tensor:
    """The factor of each weight: 0 where it is dropped, else 1 / (1 - dropout)."""
    return keeps(seed, scores.shape, dropout) * factor(dropout)
