"""Decomposes products of vectors, distances between them, and sums of products, into matrix products and reductions."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..half import in_f32, promoted_dtype
from ..undecided import surely

aten = torch.ops.aten

_BY_PRODUCTS = 25
"""Rows from which on eager computes Euclidean distances by a matrix product, unless it is told when to."""


def addmv(x: Tensor, matrix: Tensor, vector: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """Adds a vector to the product of a matrix and a vector."""
    return _added(x, torch.mv(matrix, vector), beta, alpha)


def addbmm(x: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """Adds a matrix to the sum of a batch's products, which is one product along the batch and the inner dimension."""
    product = torch.mm(a.permute(1, 0, 2).reshape(a.shape[1], -1), b.reshape(-1, b.shape[2]))
    return _added(x, product, beta, alpha)


def bmm(a: Tensor, b: Tensor) -> Any:
    """Multiplies many matrices by a vector each, and columns by rows, in kernels; NotImplemented for other products.

    On a CPU, the library spends more time on each of these than on its elements, and wants operands of their own in memory.
    """
    if a.device.type != "cpu" or a.dtype not in (torch.float32, torch.float64):
        return NotImplemented
    if surely(a.shape[2] == 1):
        return a * b
    return (a * b.mT).sum(-1, keepdim=True) if surely(b.shape[2] == 1) else NotImplemented


def _added(x: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    """Returns beta * x + alpha * product; with beta 0, values of `x` that are not numbers do not count. Beside integers, eager cuts
    the digits of alpha and beta behind the point."""
    if not product.dtype.is_floating_point:
        beta, alpha = int(beta), int(alpha)
    scaled = product if alpha == 1 else product * alpha
    return scaled if beta == 0 else (x if beta == 1 else x * beta) + scaled


def trilinear(
    a: Tensor, b: Tensor, c: Tensor, expand_a: Sequence[int], expand_b: Sequence[int], expand_c: Sequence[int],
    sum_over: Sequence[int], unroll: int = 1,
) -> Tensor:  # fmt: skip
    """Sums products of three tensors, each of which has dimensions that the others lack, by matrix products.

    The result has the first one's dtype.
    """
    dtype = promoted_dtype(a, b, c)
    dims = a.dim() + len(expand_a)
    letters = "abcdefghijklmnopqrstuvwxyz"[:dims]
    a_dims, b_dims, c_dims, kept = (
        "".join(letter for d, letter in enumerate(letters) if d not in missing)
        for missing in (expand_a, expand_b, expand_c, sum_over)
    )
    return torch.einsum(f"{a_dims},{b_dims},{c_dims}->{kept}", *(t.to(dtype) for t in (a, b, c))).to(a.dtype)


def dist(x: Tensor, y: Tensor, p: Any = 2) -> Tensor:
    """Returns the norm of a difference."""
    return torch.linalg.vector_norm(x - y, p)


@in_f32
def cdist(x: Tensor, y: Tensor, p: float, compute_mode: int | None) -> Any:
    """Computes the distances between the rows of two matrices, as eager does: Euclidean ones of many rows by matrix products."""
    if any(surely(n == 0) for n in (*x.shape, *y.shape)):
        return NotImplemented
    if p == 2 and (compute_mode == 1 or (not compute_mode and _has_many_rows(x, y))):
        return aten._euclidean_dist.default(*(t.expand(*_batch(x, y), *t.shape[-2:]) for t in (x, y)))
    return torch.linalg.vector_norm(x.unsqueeze(-2) - y.unsqueeze(-3), p, -1)


def _has_many_rows(x: Tensor, y: Tensor) -> bool:
    return not (surely(x.shape[-2] <= _BY_PRODUCTS) and surely(y.shape[-2] <= _BY_PRODUCTS))


def _batch(x: Tensor, y: Tensor) -> Sequence[int]:
    return torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])


@in_f32
def cdist_backward(grad: Tensor, x: Tensor, y: Tensor, p: float, distances: Tensor) -> Any:
    """Sums over the rows of `y` the gradients of the distances with respect to a row of `x`; 0 if a distance is 0."""
    if p == 0 or any(surely(n == 0) for n in (*x.shape, *y.shape)):
        return torch.zeros_like(x)
    return _slopes(x.unsqueeze(-2) - y.unsqueeze(-3), p, distances.unsqueeze(-1), grad.unsqueeze(-1)).sum(-2)


def _slopes(difference: Tensor, p: float, distance: Tensor, grad: Tensor) -> Tensor:
    """Returns the gradients of the norms of differences `d`."""
    if p == 1:
        return grad * torch.sign(difference)
    if p == float("inf"):
        return grad * torch.sign(difference) * (difference.abs() == distance)
    apart = torch.where(distance == 0, 1.0, distance)
    if p == 2:
        slope = difference / apart
    else:
        slope = torch.sign(difference) * (difference.abs() / apart) ** (p - 1)
        slope = torch.where(difference == 0, 0.0, slope) if p < 1 else slope
    return torch.where(distance == 0, 0.0, grad * slope)


@in_f32
def pdist(x: Tensor, p: float = 2) -> Any:
    """Computes the distance of each row from those behind it."""
    if surely(x.shape[0] < 2) or surely(x.shape[1] == 0):
        return NotImplemented
    first, second = _pairs(x.shape[0], x.device)
    return torch.linalg.vector_norm(x.index_select(0, first) - x.index_select(0, second), p, -1)


def _pairs(n: int, device: torch.device) -> Sequence[Tensor]:
    """Returns the numbers of all pairs of n rows, the smaller one first, in order. (torch.triu_indices asks for a symbolic n.)"""
    if isinstance(n, int):
        return torch.triu_indices(n, n, 1, device=device).unbind()
    place, row = torch.arange(n * (n - 1) // 2, device=device), torch.arange(n, device=device)
    before = row * (2 * n - 1 - row) // 2  # pairs of smaller rows
    first = torch.searchsorted(before, place, right=True) - 1
    return first, place - before[first] + first + 1


@in_f32
def pdist_backward(grad: Tensor, x: Tensor, p: float, distances: Tensor) -> Any:
    """Sums over all other rows, whose distances are looked up, the gradients with respect to a row."""
    n = x.shape[0]
    if p == 0 or surely(n < 2) or surely(x.shape[1] == 0):
        return torch.zeros_like(x)
    at = torch.arange(n, device=x.device)
    low, high = torch.minimum(at[:, None], at), torch.maximum(at[:, None], at)
    other = low != high
    place = torch.where(other, low * (2 * n - 1 - low) // 2 + high - low - 1, 0)
    distance, slope = distances[place], torch.where(other, grad[place], 0.0)
    return _slopes(x.unsqueeze(1) - x, p, distance.unsqueeze(-1), slope.unsqueeze(-1)).sum(1)


PRODUCTS: dict[Any, Callable[..., Any]] = {
    aten.addmv.default: addmv,
    aten.addbmm.default: addbmm,
    aten.bmm.default: bmm,
    aten._trilinear.default: trilinear,
    aten.dist.default: dist,
    aten._cdist_forward.default: cdist,
    aten._cdist_backward.default: cdist_backward,
    aten._pdist_forward.default: pdist,
    aten._pdist_backward.default: pdist_backward,
}
