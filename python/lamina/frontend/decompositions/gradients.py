"""Implementations above autograd of ops whose gradients in C++ take known sizes only, take as many ops as a row has elements, or
read what a traced call does not compute."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch._decomp.decompositions import one_layer_lstm

aten = torch.ops.aten


class _CumulativeProduct(torch.autograd.Function):
    """The cumulative product along a dimension. torch's own gradient takes as many products of rows as these have elements."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, dim: int) -> Tensor:
        """Computes the products."""
        with torch._C._AutoDispatchBelowAutograd():
            return aten.cumprod.default(x, dim)  # type: ignore[no-any-return]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Saves operand and result."""
        x, ctx.dim = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """Divides the sum of gradients times products, from each element on, by the element. From the first zero of a row on, the
        products are 0; its own gradient is such a sum with a one in its place."""
        x, out = ctx.saved_tensors
        dim: int = ctx.dim
        zeros = (x == 0).cumsum(dim)
        first = (x == 0) & (zeros == 1)
        beyond = torch.where(first, 1, x).cumprod(dim)
        before = _from_the_end(grad * out.conj(), dim) / torch.where(zeros == 0, x, 1).conj()
        at_first = _from_the_end(torch.where(zeros == 1, grad * beyond.conj(), 0), dim)
        return torch.where(zeros == 0, before, torch.where(first, at_first, 0)), None


def _from_the_end(x: Tensor, dim: int) -> Tensor:
    """Returns the cumulative sum from the last element on."""
    return x.flip(dim).cumsum(dim).flip(dim)


def cumulative_product(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """Returns the cumulative product, with a gradient of cumulative sums."""
    x = x if dtype is None else x.to(dtype)
    if x.requires_grad and x.dim():
        return _CumulativeProduct.apply(x, dim)  # type: ignore[no-any-return, no-untyped-call]
    if x.requires_grad:
        return x.clone()
    with torch._C._AutoDispatchBelowAutograd():
        return aten.cumprod.default(x, dim)  # type: ignore[no-any-return]


def lstm_layer(
    x: Tensor, w0: Tensor, w1: Tensor, w2: Tensor, w3: Tensor, hx: Tensor, cx: Tensor, reverse: bool, *rest: Any
) -> tuple[Tensor, ...]:
    """Computes a layer of an LSTM, step by step where a gradient is needed.

    torch traces oneDNN's layer for inference only, without the workspace that its gradient reads.
    """
    if not any(t.requires_grad for t in (x, w0, w1, w2, w3, hx, cx)):
        with torch._C._AutoDispatchBelowAutograd():
            return aten.mkldnn_rnn_layer.default(x, w0, w1, w2, w3, hx, cx, reverse, *rest)  # type: ignore[no-any-return]
    has_biases = rest[4]
    out, (hy, cy) = one_layer_lstm(x, (hx.squeeze(0), cx.squeeze(0)), (w0, w1, w2, w3), has_biases, reverse)
    return out, hy.unsqueeze(0), cy.unsqueeze(0), x.new_empty(0, dtype=torch.uint8)


ABOVE_AUTOGRAD: dict[torch._ops.OpOverload, Callable[..., Any]] = {
    aten.affine_grid_generator.default: decomposition_table[aten.affine_grid_generator.default],
    aten.cumprod.default: cumulative_product,
    aten.mkldnn_rnn_layer.default: lstm_layer,
}
"""The ops, with their implementations."""
