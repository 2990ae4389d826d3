"""Decomposes reductions: half types accumulate in f32, variance is by moments, extrema return the first index."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..half import HALF, wide_dtype
from ..undecided import greater, guess, surely
from .index import position
from .moments import count, moments, on_cpu
from .ordering import first_extreme

aten = torch.ops.aten

# From this many elements on, a mean is bound by memory even when it adds up in f64. Where so many lie far from zero, partial sums
# are nearly equal, so that their roundings to f32 do not average out.
_OUTSIDE_CACHES = 1 << 20


def _dims(x: Tensor, dim: Any) -> list[int]:
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return list(range(x.dim()))
    given = [dim] if isinstance(dim, int) else list(dim)
    return sorted(d % x.dim() for d in given) if x.dim() else []


def sum_dims(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    """Sums over dimensions, half types in f32; NotImplemented if input and result have one dtype that is not a half type."""
    dtype = sum_dtype(x, dtype)
    if x.dtype == dtype and dtype not in HALF:
        return NotImplemented
    acc = x.to(wide_dtype(dtype))
    return acc.sum(_dims(x, dim), keepdim).to(dtype)


def sum_all(x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    """Sums all elements."""
    return x.sum(list(range(x.dim())), dtype=dtype) if x.dim() else x.to(sum_dtype(x, dtype), copy=True)


def sum_dtype(x: Tensor, dtype: torch.dtype | None) -> torch.dtype:
    """Returns the dtype of a sum's result: the given one, or 64-bit integers for integers and truth values."""
    return dtype or (x.dtype if x.dtype.is_floating_point or x.dtype.is_complex else torch.int64)


def mean(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """Averages over dimensions: half types in f32, large f32 means on a CPU in f64."""
    dtype = dtype or x.dtype
    dims = _dims(x, dim)
    n = count(x, dims)
    wide = torch.float64 if dtype is torch.float32 and on_cpu(x) and guess(n) >= _OUTSIDE_CACHES else wide_dtype(dtype)
    return (x.to(wide).sum(dims, keepdim) / n).to(dtype)


def _spread(root: bool, with_mean: bool) -> Callable[..., Any]:
    """Returns the decomposition of the variance, or its root, and of the mean if that is a result, too. They are computed in at
    least f32."""

    def run(x: Tensor, dim: Any = None, *, correction: float | None = None, keepdim: bool = False) -> Any:
        """Computes the variance or deviation from centered moments."""
        if x.dtype.is_complex:
            return NotImplemented
        dims = _dims(x, dim)
        found, less = moments(x, dims, with_mean), 1 if correction is None else correction
        divisor = greater(count(x, dims) - (int(less) if less == int(less) else less), 0)
        variance = found.squares / (0.0 if surely(divisor == 0) else divisor)
        results = [torch.sqrt(variance) if root else variance, found.mean]
        spread, mean = ((t if keepdim or not x.dim() else t.squeeze(dims)).to(x.dtype) for t in results)
        return (spread, mean) if with_mean else spread

    return run


def _first(x: Tensor, extreme: Tensor, dim: int, keepdim: bool) -> Tensor:
    """Returns the index along `dim` of the first element that equals the extreme, or is NaN."""
    hit = x == extreme
    if x.dtype.is_floating_point:
        hit = hit | (x != x)
    return torch.amin(torch.where(hit, position(x, dim), x.shape[dim] - 1), [dim], keepdim)


def _in_one_pass(x: Tensor, dim: int) -> bool:
    """Returns whether an extreme is sought together with its place: where a GPU does not keep elements until it is known."""
    return not on_cpu(x) and x.dtype.itemsize < 8 and guess(x.stride(dim)) != 1


def _zero(x: Tensor) -> Tensor:
    return torch.full((), 0, dtype=torch.int64, device=x.device)


def _extreme(reduce: Callable[..., Tensor]) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """Builds max.default, max.dim and argmax from amax, and likewise for min."""

    def whole(x: Tensor) -> Any:
        """Reduces all dimensions."""
        return reduce(x, list(range(x.dim()))) if x.dim() else x.clone()

    def along(x: Tensor, dim: int, keepdim: bool = False) -> Any:
        """Returns the extremes along a dimension and their positions."""
        if not x.dim():
            return x.clone(), _zero(x)
        if x.dtype is torch.bool:
            value, at = along(x.to(torch.int8), dim, keepdim)
            return value != 0, at
        if _in_one_pass(x, dim):
            value, at = first_extreme(x, dim % x.dim(), reduce is torch.amax)
            return (value, at) if keepdim else (value.squeeze(dim), at.squeeze(dim))
        kept = reduce(x, [dim], True)
        return (kept if keepdim else kept.squeeze(dim)), _first(x, kept, dim % x.dim(), keepdim)

    def arg(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
        """Returns the positions of the extremes."""
        if x.dtype is torch.bool:
            return NotImplemented
        if not x.dim():
            return _zero(x)
        if dim is None:
            out = arg(x.reshape(-1), 0, False)
            return out.view([1] * x.dim()) if keepdim else out
        if _in_one_pass(x, dim):
            return along(x, dim, keepdim)[1]
        return _first(x, reduce(x, [dim], True), dim % x.dim(), keepdim)

    return whole, along, arg


max_all, max_dim, argmax = _extreme(torch.amax)
min_all, min_dim, argmin = _extreme(torch.amin)


def extreme_of_one(x: Tensor, dim: Any = (), keepdim: bool = False) -> Any:
    """Returns amax or amin of a tensor without dimensions, which takes dimension 0 all the same."""
    return NotImplemented if x.dim() else x.clone()


def _truth(every: bool) -> Callable[..., Any]:
    """Returns a function for `all` or `any`: the extreme of the truth values as 8-bit integers, which nothing has, so that what may
    be empty is counted. Bytes give a byte."""

    def reduced(x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
        """Reduces the truth values of a tensor; along no dimension where an empty list is given."""
        found = x != 0
        dims = [] if isinstance(dim, Sequence) and not dim else _dims(x, dim)
        if dims and surely(x.numel() > 0):
            extreme = torch.amin if every else torch.amax
            found = extreme(found.to(torch.int8), dims, keepdim) != 0
        elif dims:
            count = torch.sum(found != every, dims, keepdim, dtype=torch.int32)
            found = count == 0 if every else count != 0
        return found.to(torch.uint8) if x.dtype is torch.uint8 else found

    return reduced


all_dims, any_dims = _truth(every=True), _truth(every=False)


def product_along(x: Tensor, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    """Returns a number, which has no dimension to multiply along, in the dtype of its product."""
    return NotImplemented if x.dim() else x.to(sum_dtype(x, dtype), copy=True)


REDUCTIONS: dict[Any, Callable[..., Any]] = {
    aten.prod.dim_int: product_along,
    aten.sum.dim_IntList: sum_dims,
    aten.sum.default: sum_all,
    aten.mean.dim: mean,
    aten.mean.default: mean,
    aten.var_mean.correction: _spread(root=False, with_mean=True),
    aten.var.correction: _spread(root=False, with_mean=False),
    aten.std_mean.correction: _spread(root=True, with_mean=True),
    aten.std.correction: _spread(root=True, with_mean=False),
    aten.amax.default: extreme_of_one,
    aten.amin.default: extreme_of_one,
    aten.max.default: max_all,
    aten.max.dim: max_dim,
    aten.argmax.default: argmax,
    aten.min.default: min_all,
    aten.min.dim: min_dim,
    aten.argmin.default: argmin,
    aten.all.default: all_dims,
    aten.all.dim: all_dims,
    aten.all.dims: all_dims,
    aten.any.default: any_dims,
    aten.any.dim: any_dims,
    aten.any.dims: any_dims,
}
