"""Attention as graphs for training call it, and its gradients in float64."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from functorch.compile import aot_function, make_boxed_func, min_cut_rematerialization_partition
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensorMode

from lamina.frontend.decompositions.table import table
from lamina.passes.families.attention.torch_kernels.registry import TORCH_KERNELS


def backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, made: Sequence[Tensor], mask: Tensor | None = None, causal: bool = False,
    scale: float | None = None, allowed: str = TORCH_KERNELS, trains_mask: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The gradients of query, key and value, and maybe of the mask. made: what `attention` found."""
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    back = torch.ops.lamina.attention_backward.default
    return tuple(back(grad, q, k, v, mask, *made, None, 0.0, causal, factor, allowed, trains_mask))


def _scores(q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, scale: float | None) -> Tensor:
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else scores + mask.double()
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril(), -torch.inf)
    return scores


def exact_sums(q: Tensor, k: Tensor, mask: Tensor | None = None, causal: bool = False, scale: float | None = None) -> Tensor:
    """Returns logarithms of sums (batch, heads, queries) in float64; infinity for rows that see no key."""
    sums = _scores(q.double(), k.double(), mask, causal, scale).logsumexp(-1)
    return sums.masked_fill(sums == -torch.inf, torch.inf)


def exact_gradients(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False, scale: float | None = None
) -> tuple[Tensor, ...]:
    """Computes the gradients in float64 by autograd; rows that see no key do not contribute."""
    return exact_gradients_of(grad, q, k, v, mask, causal, scale)[1:]


@torch.enable_grad()
def exact_gradients_of(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float | None,
    factors: Tensor | float = 1.0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The same behind the result. factors: of the weights, as dropout has them."""
    q, k, v = wide = [t.detach().double().requires_grad_() for t in (q, k, v)]
    scores = _scores(q, k, mask, causal, scale)
    blind = (scores == -torch.inf).all(-1, keepdim=True)
    weights = torch.where(blind, 0.0, torch.where(blind, 0.0, scores).softmax(-1)) * factors
    out = weights @ v.repeat_interleave(q.shape[1] // v.shape[1], 1)
    return out.detach(), *torch.autograd.grad(out, wide, grad.double())


def both_graphs(fn: Callable[..., Tensor], inputs: Sequence[Tensor]) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Returns the forward and the backward graph of torch.compile for a function of tensors that all need gradients."""
    graphs: list[fx.GraphModule] = []

    def keep(gm: fx.GraphModule, _: object) -> Callable[..., Any]:
        graphs.append(gm)
        return make_boxed_func(gm.forward)

    with FakeTensorMode() as fake:
        traced = aot_function(fn, keep, keep, min_cut_rematerialization_partition, table())
        traced(*(fake.from_tensor(t).requires_grad_() for t in inputs)).sum().backward()
    one, other = graphs
    return one, other


def saved(one: fx.GraphModule, found: Sequence[Tensor], inputs: Sequence[Tensor]) -> dict[str, Tensor]:
    """By name, what a backward graph may read: the arguments of the forward graph `one`, and what it has found."""
    given = [node for node in one.graph.nodes if node.op == "placeholder"]
    made = [node for node in one.graph.output_node().args[0] if node.op != "placeholder"]
    return {node.name: t for node, t in zip((*given, *made), (*inputs, *found), strict=True)}
