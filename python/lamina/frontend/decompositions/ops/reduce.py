"""Decomposes reductions: half types accumulate in f32, variance is by moments, extrema return the first index."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..half import HALF, wide_dtype
from ..undecided import greater, guess, surely
from .index import pad, position
from .moments import count, moments, on_cpu

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
    """Sums over dimensions, half types in f32; NotImplemented where input and result have one dtype that is no half type."""
    dtype = _sum_dtype(x, dtype)
    if x.dtype == dtype and dtype not in HALF:
        return NotImplemented
    acc = x.to(wide_dtype(dtype))
    return acc.sum(_dims(x, dim), keepdim).to(dtype)


def sum_all(x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    """Sums all elements."""
    return x.sum(list(range(x.dim())), dtype=dtype) if x.dim() else x.to(_sum_dtype(x, dtype), copy=True)


def _sum_dtype(x: Tensor, dtype: torch.dtype | None) -> torch.dtype:
    return dtype or (x.dtype if x.dtype.is_floating_point or x.dtype.is_complex else torch.int64)


def mean(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """Averages over dimensions: half types in f32, large f32 means on a CPU in f64."""
    dtype = dtype or x.dtype
    dims = _dims(x, dim)
    n = count(x, dims)
    wide = torch.float64 if dtype is torch.float32 and on_cpu(x) and guess(n) >= _OUTSIDE_CACHES else wide_dtype(dtype)
    return (x.to(wide).sum(dims, keepdim) / n).to(dtype)


def _spread(root: bool, with_mean: bool) -> Callable[..., Any]:
    """Returns the decomposition of the variance, or its root, and of the mean beside it. They are computed in at least f32."""

    def run(x: Tensor, dim: Any = None, *, correction: float | None = None, keepdim: bool = False) -> Any:
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


def _extreme(reduce: Callable[..., Tensor]) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """Builds max.default, max.dim and argmax from amax, and likewise for min."""

    def whole(x: Tensor) -> Any:
        return reduce(x, list(range(x.dim()))) if x.dim() else x.clone()

    def along(x: Tensor, dim: int, keepdim: bool = False) -> Any:
        if x.dtype is torch.bool or x.dim() == 0:
            return NotImplemented
        kept = reduce(x, [dim], True)
        return (kept if keepdim else kept.squeeze(dim)), _first(x, kept, dim % x.dim(), keepdim)

    def arg(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
        if x.dtype is torch.bool or x.dim() == 0:
            return NotImplemented
        if dim is None:
            out = arg(x.reshape(-1), 0, False)
            return out.view([1] * x.dim()) if keepdim else out
        return _first(x, reduce(x, [dim], True), dim % x.dim(), keepdim)

    return whole, along, arg


max_all, max_dim, argmax = _extreme(torch.amax)
min_all, min_dim, argmin = _extreme(torch.amin)


def extreme_of_one(x: Tensor, dim: Any = (), keepdim: bool = False) -> Any:
    """Returns amax or amin of a tensor without dimensions, which takes dimension 0 all the same."""
    return NotImplemented if x.dim() else x.clone()


def all_dims(x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """Computes the minimum of the truth values as 8-bit integers."""
    dims = _dims(x, dim)
    if x.dtype is torch.uint8 or not dims or surely(x.numel() == 0):
        return NotImplemented
    return torch.amin((x != 0).to(torch.int8), dims, keepdim) != 0


ROW_PART, COLUMN_PART = 4096, 32  # elements in one part of a scan, along contiguous memory and across it
MANY_ROWS, MANY_COLUMNS = 128, 1 << 16  # so many independent scans keep a GPU busy


def cumsum(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    """Computes cumulative sums: half types in f32, long scans on a GPU in parts."""
    out = _sum_dtype(x, dtype)
    if not x.dim():
        return x.to(out, copy=True)
    if x.dtype == out and out not in HALF and not _part_of_scan(x, dim % x.dim()):
        return NotImplemented
    return _scanned(x.to(wide_dtype(out)), dim).to(out)


def _scanned(x: Tensor, dim: int) -> Tensor:
    """Returns the cumulative sums of `x`.

    On a GPU, long scans that occupy too few threads are cut into parts: each part is scanned, and the scanned sums of the parts
    before it are added.
    """
    dim %= x.dim()
    length = _part_of_scan(x, dim)
    if not length:
        return torch.cumsum(x, dim)
    n = x.shape[dim]
    parts = -(-n // length)
    wide = pad(x, dim, 0, parts * length - n).unflatten(dim, (parts, length))
    before = pad(wide.sum(dim + 1).narrow(dim, 0, parts - 1), dim, 1, 0)
    whole = torch.cumsum(wide, dim + 1) + _scanned(before, dim).unsqueeze(dim + 1)
    return whole.flatten(dim, dim + 1).narrow(dim, 0, n)


def _part_of_scan(x: Tensor, dim: int) -> int:
    """Returns the number of elements in one part of a scan; 0 where the scan is left whole."""
    n = x.shape[dim]
    if on_cpu(x) or surely(x.numel() == 0):
        return 0
    rows = x.numel() // n
    along = all(guess(s) >= guess(x.stride(dim)) for s, m in zip(x.stride(), x.shape, strict=True) if guess(m) > 1)
    if along:
        return ROW_PART if surely(n >= 4 * ROW_PART) and guess(rows) < MANY_ROWS else 0
    return COLUMN_PART if surely(n >= 4 * COLUMN_PART) and guess(rows) < MANY_COLUMNS else 0


REDUCTIONS: dict[Any, Callable[..., Any]] = {
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
    aten.cumsum.default: cumsum,
}
