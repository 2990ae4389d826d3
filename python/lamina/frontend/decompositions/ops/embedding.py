"""Decomposes sums, means and maxima of bags of rows of a table, and the renormalization of rows that are looked up."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..half import HALF, in_compute_dtype
from ..undecided import surely

aten = torch.ops.aten

_SUM, _MEAN, _MAX = 0, 1, 2  # modes of embedding bags


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    """Adds each index's row to that of its bag, or takes the greatest elements. Sums on GPUs, whose atomic additions have no order,
    keep ATen's kernel."""
    if (weight.device.type != "cpu" and mode != _MAX) or surely(indices.numel() == 0) or surely(offsets.numel() == 0):
        return NotImplemented
    starts = aten.slice.Tensor(offsets, 0, 0, offsets.shape[0] - 1) if include_last_offset else offsets
    bags, counted = _bags(indices, starts), indices != padding_idx
    rows = torch.where(counted[:, None], aten.embedding.default(weight, indices), 0)
    rows = rows.float() if weight.dtype in HALF else rows
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.to(rows.dtype)[:, None]
    count, width = starts.shape[0], weight.shape[1]
    if mode == _MAX:
        return _greatest(weight, indices, bags, counted, count)
    total = aten.scatter_add.default(rows.new_zeros(count, width), 0, bags[:, None].expand(-1, width), rows)
    sizes = aten.scatter_add.default(indices.new_zeros(count), 0, bags, counted.to(indices.dtype))
    if mode == _MEAN:
        total = total / sizes.clamp(min=1)[:, None]
    return total.to(weight.dtype), bags, sizes, torch.zeros_like(sizes)


def _greatest(weight: Tensor, indices: Tensor, bags: Tensor, counted: Tensor, count: int) -> tuple[Tensor, ...]:
    """Returns what _embedding_bag does for maxima: the first of equal ones counts, and empty bags are 0, with index 0."""
    width, number = weight.shape[1], indices.shape[0]
    rows = aten.embedding.default(weight, indices)
    rows = torch.where(counted[:, None], rows.float() if weight.dtype in HALF else rows, -torch.inf)
    to = bags[:, None].expand(-1, width)
    top = aten.scatter_reduce.two(rows.new_full((count, width), -torch.inf), 0, to, rows, "amax")
    sizes = aten.scatter_add.default(indices.new_zeros(count), 0, bags, counted.to(indices.dtype))
    met = counted[:, None] & (rows == aten.index_select.default(top, 0, bags))
    places = torch.arange(number, dtype=torch.int64, device=indices.device)[:, None]
    last = places.new_full((count, width), number - 1)
    first = aten.scatter_reduce.two(last, 0, to, torch.where(met, places, number - 1), "amin")
    filled = (sizes > 0)[:, None]
    chosen = torch.where(filled, aten.index.Tensor(indices, [first]), 0)
    return torch.where(filled, top, 0.0).to(weight.dtype), bags, sizes, chosen


def embedding_bag_forward_only(
    weight: Tensor, indices: Tensor, offsets: Tensor, by_freq: bool = False, mode: int = _SUM, *rest: Any, **named: Any
) -> Any:
    """Leaves sums in inference to ATen, which is faster, except in bf16: there torch's meta function gives ATen's other results the
    wrong shape."""
    if weight.dtype is not torch.bfloat16 and mode != _MAX:
        return NotImplemented
    return embedding_bag(weight, indices, offsets, by_freq, mode, *rest, **named)


def _bags(indices: Tensor, starts: Tensor) -> Tensor:
    """Returns the number of each index's bag: how many bags start at it or before, less one."""
    begun = aten.scatter_add.default(starts.new_zeros(indices.shape[0] + 1), 0, starts, torch.ones_like(starts))
    bags = aten.slice.Tensor(begun, 0, 0, indices.shape[0]).cumsum(0) - 1
    return bags.to(indices.dtype)


def embedding_bag_backward(
    grad: Tensor,
    indices: Tensor,
    offsets: Tensor,
    bags: Tensor,
    sizes: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Any:
    """Gives each index the gradient of its bag, which is then that of an embedding; that of a maximum to where it was met."""
    if mode == _MAX and not sparse:
        given = torch.where((sizes > 0)[:, None], grad, 0.0)
        return aten.scatter_add.default(grad.new_zeros(num_weights, grad.shape[1]), 0, maximum_indices.to(torch.int64), given)
    numbered = bags.shape[0] == indices.shape[0]  # not by ATen's fast kernel
    if grad.device.type != "cpu" or mode not in (_SUM, _MEAN) or sparse or scale_grad_by_freq or not numbered:
        return NotImplemented  # eager divides by the frequencies of other indices
    if mode == _MEAN:
        grad = grad / sizes.clamp(min=1)[:, None].to(grad.dtype)
    each = aten.index_select.default(grad, 0, bags)
    if per_sample_weights is not None:
        each = each * per_sample_weights[:, None]
    return aten.embedding_dense_backward.default(each, indices, num_weights, padding_idx, False)


def embedding_bag_weights_backward(
    grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, bags: Tensor, mode: int, padding_idx: int = -1
) -> Any:
    """Multiplies each index's row by the gradient of its bag; the weight of padding has none."""
    if mode != _SUM or surely(indices.numel() == 0) or not surely(bags.shape[0] == indices.shape[0]):
        return NotImplemented
    product = in_compute_dtype(aten.index_select.default(grad, 0, bags)) * in_compute_dtype(aten.embedding.default(weight, indices))
    return torch.where(indices != padding_idx, product.sum(1), 0.0).to(grad.dtype)


def embedding_renorm(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Any:
    """Scales the rows at the indices to a norm, where theirs is greater."""
    if surely(indices.numel() == 0):
        return weight.clone()
    at = indices.reshape(-1)
    rows = in_compute_dtype(aten.index_select.default(weight, 0, at))
    norm = torch.linalg.vector_norm(rows, norm_type, 1, True)
    scaled = torch.where(norm > max_norm, rows * (max_norm / (norm + 1e-7)), rows)
    return aten.index_put.default(weight, [at], scaled.to(weight.dtype))


EMBEDDINGS: dict[Any, Callable[..., Any]] = {
    aten._embedding_bag.default: embedding_bag,
    aten._embedding_bag_forward_only.default: embedding_bag_forward_only,
    aten._embedding_bag_backward.default: embedding_bag_backward,
    aten._embedding_bag_per_sample_weights_backward.default: embedding_bag_weights_backward,
    aten.embedding_renorm.default: embedding_renorm,
}
