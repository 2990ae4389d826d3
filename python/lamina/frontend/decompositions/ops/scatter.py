"""Decomposes scatters to what kernels compute (passes/fusion/scatter.py): those that combine values with elements of a tensor, and
those to strided views of its memory.

The former add, multiply, or take the greater or lesser of floats and integers. Half types are combined in f32, truth values as
signed bytes, and unsigned bytes in 16 bits. A mean is a sum divided by a count.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ...fx.ops.check_op import CHECK
from ..half import HALF
from ..undecided import surely
from .random.uniform import memory_order

aten = torch.ops.aten


def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Any:
    """Adds in f32 to half types; cuts values that have no index."""
    return _reduced(x, dim, index, src, "sum", lambda *given: aten.scatter_add.default(*given))


def scatter_reduce(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Any:
    """Starts from the neutral element where the old one does not count; divides sums by counts for a mean."""
    if reduce == "sum" and include_self:
        return aten.scatter_add.default(x, dim, index, src)
    if reduce == "mean":
        return _mean(x, dim, index, src, include_self)
    if not include_self:
        reached = aten.scatter.value(torch.zeros_like(x, dtype=torch.bool), dim, index, True)
        return aten.scatter_reduce.two(torch.where(reached, _neutral(x.dtype, reduce), x), dim, index, src, reduce)
    return _reduced(x, dim, index, src, reduce, lambda *given: aten.scatter_reduce.two(*given, reduce))


def _reduced(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, scatter: Callable[..., Tensor]) -> Any:
    """Calls a scatter on tensors that kernels can combine; NotImplemented if these are the given ones."""
    if not x.dim():
        return scatter(x.reshape(1), 0, index.reshape(-1), src.reshape(-1)).reshape(())
    if _is_empty(index):
        return x.clone()
    cut = _cut(src, index.shape)
    if x.dtype in HALF:
        return scatter(x.float(), dim, index, cut.float()).to(x.dtype)
    if x.dtype is torch.bool:
        either = "amax" if reduce in ("sum", "amax") else "amin"
        return aten.scatter_reduce.two(x.to(torch.int8), dim, index, cut.to(torch.int8), either).to(torch.bool)
    if x.dtype is torch.uint8:
        return scatter(x.to(torch.int16), dim, index, cut.to(torch.int16)).to(torch.uint8)
    return NotImplemented if cut is src else scatter(x, dim, index, cut)


def _is_empty(index: Tensor) -> bool:
    return any(isinstance(n, int) and n == 0 for n in index.shape)


def _cut(src: Tensor, shape: torch.Size) -> Tensor:
    """Returns the values that have an index."""
    for dim, (n, wanted) in enumerate(zip(src.shape, shape, strict=True)):
        if n != wanted:
            src = aten.slice.Tensor(src, dim, 0, wanted)
    return src


def _mean(x: Tensor, dim: int, index: Tensor, src: Tensor, include_self: bool) -> Tensor:
    """Divides sums by counts, which are counted once along dimensions that the index is repeated along."""
    once, kept = index, x
    for d, step in enumerate(index.stride()):
        if step == 0 and d != dim % x.dim() and index.shape[d] == x.shape[d]:
            once, kept = aten.slice.Tensor(once, d, 0, 1), aten.slice.Tensor(kept, d, 0, 1)
    dtype = torch.float32 if x.dtype.is_floating_point and x.dtype is not torch.float64 else x.dtype
    start = torch.full(kept.shape, int(include_self), dtype=dtype, device=x.device)
    count = aten.scatter_add.default(start, dim, once, torch.ones(once.shape, dtype=dtype, device=x.device))
    wide = x.float() if x.dtype in HALF else x
    reached = count > 0
    base = wide if include_self else torch.where(reached, 0, wide)
    total = aten.scatter_add.default(base, dim, index, src.to(base.dtype))
    if dtype.is_floating_point:
        return (total / (count if include_self else count.clamp(min=1))).to(x.dtype)
    if dtype.itemsize < 4:
        total, count = total.to(torch.int32), count.to(torch.int32)
    return torch.div(total, count.clamp(min=1), rounding_mode="floor").to(x.dtype)


def _neutral(dtype: torch.dtype, reduce: str) -> Tensor | float:
    """Returns the element that a reduction starts from."""
    if reduce in ("sum", "prod") or dtype is torch.bool:
        return torch.scalar_tensor(reduce in ("prod", "amin"), dtype=dtype)
    ends = (torch.inf, -torch.inf) if dtype.is_floating_point else (torch.iinfo(dtype).max, torch.iinfo(dtype).min)
    return torch.scalar_tensor(ends[reduce == "amax"], dtype=dtype)


def _of_number(op: Any) -> Callable[..., Any]:
    """Wraps a scatter to a tensor without dimensions: it and other operands without any become rows of one element."""

    def run(x: Tensor, dim: int, index: Tensor, src: Any) -> Any:
        """Leaves other tensors as they are."""
        if x.dim() or surely(index.numel() == 0):
            return NotImplemented
        return op(x.reshape(1), 0, index.reshape(-1), src.reshape(-1) if isinstance(src, Tensor) else src).reshape(())

    return run


def scatter_by_name(x: Tensor, dim: int, index: Tensor, src: Tensor | float, *, reduce: str) -> Tensor:
    """Adds or multiplies, by the names that scatter knows."""
    values = src if isinstance(src, Tensor) else torch.full(index.shape, src, dtype=x.dtype, device=x.device)
    return aten.scatter_reduce.two(x, dim, index, values, {"add": "sum", "multiply": "prod"}[reduce])


def index_reduce(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """Repeats the index over the other dimensions."""
    if not x.dim():
        return aten.scatter_reduce.two(x, dim, index.reshape(()), src.reshape(()), reduce, include_self=include_self)
    shape = [1] * x.dim()
    shape[dim] = index.numel()
    return aten.scatter_reduce.two(x, dim, index.view(shape).expand(src.shape), src, reduce, include_self=include_self)


def index_put(x: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool = False) -> Any:
    """Selects by a mask where each of its elements takes the same values. Adds in f32 to half types, and counts truth values that
    are set; adds nothing if there are no indices."""
    if (selected := where_masked(x, indices, values, accumulate)) is not None:
        return selected
    if accumulate and any(_is_empty(i) for i in indices if i is not None):
        return x.clone()
    if accumulate and x.dtype in HALF:
        return aten.index_put.default(x.float(), indices, values.float(), True).to(x.dtype)
    if accumulate and x.dtype is torch.bool:
        added = aten.index_put.default(torch.zeros_like(x, dtype=torch.int64), indices, values.to(torch.int64), True)
        return x | (added > 0)
    if accumulate and x.dtype is torch.uint8:
        return aten.index_put.default(x.to(torch.int16), indices, values.to(torch.int16), True).to(torch.uint8)
    return NotImplemented


def where_masked(x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool) -> Tensor | None:
    """Returns x[:, mask] = values as a selection; None if there is no mask, other indices, or a value for each element of it."""
    mask = indices[-1]
    if mask is None or mask.dtype is not torch.bool or any(i is not None for i in indices[:-1]) or not x.dim():
        return None
    before = len(indices) - 1
    after = x.dim() - before - mask.dim()
    if values.dim() > after and not surely(values.shape[values.dim() - after - 1] == 1):
        return None
    left = values.shape[: max(values.dim() - after - 1, 0)]
    spread = values.reshape([*left, *[1] * mask.dim(), *values.shape[values.dim() - after :]]) if values.dim() > after else values
    inside = mask.reshape([*mask.shape, *[1] * after])
    return torch.where(inside, x + spread if accumulate else spread, x)


def put(x: Tensor, index: Tensor, src: Tensor, accumulate: bool = False) -> Tensor:
    """Indexes the flattened tensor."""
    flat = aten.index_put.default(x.reshape(-1), [index.reshape(-1)], src.reshape(-1), accumulate)
    return flat.view(x.shape)


def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """Counts the elements in each of some equal intervals between two numbers: the data's extremes where these are equal."""
    if min > max or x.dtype not in (torch.float32, torch.float64) or not surely(x.numel() > 0):
        return NotImplemented
    row = x.reshape(-1)
    low, high = _bounds_of(row) if min == max else (min, max)
    inside = (row >= low) & (row <= high)
    place = torch.where(inside, (row - low) * bins / (high - low), 0).to(torch.int64).clamp(0, bins - 1)
    return aten.index_put.default(row.new_zeros(bins), [place], inside.to(x.dtype), True)


def _bounds_of(row: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the least and the greatest element; where they are equal, what is less and greater by 1. Both must be finite."""
    low, high = row.amin(), row.amax()
    finite = CHECK((low > -torch.inf) & (high < torch.inf), "histc: the range of the elements is not finite")
    apart = torch.where(finite & (low == high), 1.0, 0.0).to(row.dtype)
    return low - apart, high + apart


def _rank_in_mask(mask: Tensor) -> Tensor:
    """Returns, for each element of a mask in order, how many before it and with it hold, less one."""
    few = surely(mask.numel() < 1 << 31)
    return torch.cumsum(mask.reshape(-1), 0, dtype=torch.int32 if few else torch.int64).to(torch.int64) - 1


def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Any:
    """Gathers, where the mask holds, as many elements of the source in order as it holds before. Too few are an index out of
    bounds."""
    if mask.dtype is not torch.bool or not surely(x.numel() > 0) or not surely(source.numel() > 0):
        return NotImplemented
    x, mask = torch.broadcast_tensors(x, mask)
    taken = aten.index.Tensor(source.reshape(-1), [torch.clamp(_rank_in_mask(mask), min=0)]).view(x.shape)
    return torch.where(mask, taken, x)


def masked_scatter_backward(grad: Tensor, mask: Tensor, sizes: Any) -> Any:
    """Puts gradients of elements that the mask holds in order; all others to a place behind them that is left out."""
    if mask.dtype is not torch.bool or not surely(grad.numel() > 0):
        return NotImplemented
    count = math.prod(sizes)
    turn = torch.where(mask.expand(grad.shape).reshape(-1), _rank_in_mask(mask.expand(grad.shape)), count)
    return aten.index_put.default(grad.new_zeros(count + 1), [turn], grad.reshape(-1)).narrow(0, 0, count).view(sizes)


def as_strided_scatter(x: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None = None) -> Any:
    """Writes `src` to a copy of the memory of `x`, seen as one row from its start: `offset` counts from there.

    Elements of `x` that share memory are first copied to places of their own, as in eager.
    """
    if any(n > 1 and s == 0 for n, s in zip(x.shape, x.stride(), strict=True)):
        return aten.as_strided_scatter.default(x.clone(), src, size, stride, offset)
    offset = x.storage_offset() if offset is None else offset
    written = x.as_strided(size, stride, offset)
    if _is_whole(x) and _is_whole(written) and surely(offset == x.storage_offset()) and surely(x.numel() == written.numel()):
        row = src.expand(size).to(x.dtype).permute(memory_order(written)).reshape(-1).clone()
        return row.as_strided(x.shape, x.stride(), 0)
    end = max(_end(x.shape, x.stride(), x.storage_offset()), _end(size, stride, offset))
    if x.shape == (end,) and x.is_contiguous():
        return _scattered(x, src, size, stride, offset)
    order = memory_order(x)
    whole = x.numel() == end and x.permute(order).is_contiguous()
    row = x.permute(order).reshape(-1) if whole else x.as_strided((end,), (1,), 0)
    return aten.as_strided_scatter.default(row, src, size, stride, offset).as_strided(x.shape, x.stride(), x.storage_offset())


def _scattered(row: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], offset: int) -> Any:
    """Stores each value at its place in a row; NotImplemented if two may have one place, or sizes are symbolic."""
    if not all(isinstance(n, int) for n in (*size, *stride, offset)):
        return NotImplemented
    reach = 0
    for s, n in sorted((s, n) for s, n in zip(stride, size, strict=True) if n > 1):
        if s <= reach:
            return NotImplemented
        reach += (n - 1) * s
    place = torch.full((), offset, device=row.device)
    for n, s in zip(size, stride, strict=True):
        place = place.unsqueeze(-1) + torch.arange(n, device=row.device) * s
    return aten.scatter.src(row, 0, place.reshape(-1), src.expand(size).to(row.dtype).reshape(-1))


def _is_whole(x: Tensor) -> bool:
    """Returns whether a tensor's elements lie side by side in memory, each in a place of its own."""
    return bool(x.permute(memory_order(x)).is_contiguous())


def _end(size: Sequence[int], stride: Sequence[int], offset: int) -> int:
    """Returns the position in memory after the last element."""
    return offset + 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if all(size) else 0


SCATTERS: dict[Any, Callable[..., Any]] = {
    aten.as_strided_scatter.default: as_strided_scatter,
    aten.scatter_add.default: scatter_add,
    aten.scatter_reduce.two: scatter_reduce,
    aten.scatter.src: _of_number(aten.scatter.src),
    aten.scatter.value: _of_number(aten.scatter.value),
    aten.scatter.reduce: scatter_by_name,
    aten.scatter.value_reduce: scatter_by_name,
    aten.index_reduce.default: index_reduce,
    aten.index_put.default: index_put,
    aten.put.default: put,
    aten.histc.default: histc,
    aten.masked_scatter.default: masked_scatter,
    aten.masked_scatter_backward.default: masked_scatter_backward,
}
