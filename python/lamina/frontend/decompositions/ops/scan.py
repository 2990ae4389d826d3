"""Decomposes scans (cumulative sums, products, extrema, sums of exponentials) into `lamina.scan`.

Half types add up and multiply in f32. Long scans on a GPU run in parts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...fx.ops.scan_op import SCAN
from ...fx.support import COMPUTED
from ..half import in_f32, wide_dtype
from ..undecided import guess, surely
from . import moments
from .index import pad, position
from .reduce import sum_dtype

aten = torch.ops.aten

ROW_PART, COLUMN_PART = 4096, 32  # elements in one part of a scan, along contiguous memory and across it
MANY_ROWS, MANY_COLUMNS = 128, 1 << 16  # so many independent scans keep a GPU busy


@dataclass(frozen=True)
class _Running:
    """One kind of scan.

    short    scans rows of any length
    whole    the reduction by the same operation, along one dimension
    join     the operation itself
    nothing  its neutral number for a dtype
    """

    short: Callable[[Tensor, int], Tensor]
    whole: Callable[[Tensor, int], Tensor]
    join: Callable[[Tensor, Tensor], Tensor]
    nothing: Callable[[torch.dtype], float]

    def __call__(self, x: Tensor, dim: int) -> Tensor:
        """Scans a dimension. Long rows that occupy too few threads are scanned in parts: what the parts before it reduce to is
        joined to each."""
        length = _part(x, dim)
        if not length:
            return self.short(x, dim)
        n, nothing = x.shape[dim], self.nothing(x.dtype)
        parts = -(-n // length)
        wide = pad(x, dim, 0, parts * length - n, nothing).unflatten(dim, (parts, length))
        before = pad(self.whole(wide, dim + 1).narrow(dim, 0, parts - 1), dim, 1, 0, nothing)
        return self.join(self.short(wide, dim + 1), self(before, dim).unsqueeze(dim + 1)).flatten(dim, dim + 1).narrow(dim, 0, n)


def _part(x: Tensor, dim: int) -> int:
    """Returns the number of elements in one part of a scan; 0 if the scan is left whole."""
    n = x.shape[dim]
    if moments.on_cpu(x):
        return 0
    rows = x.numel() // n
    if _along(x, dim):
        return ROW_PART if surely(n >= 4 * ROW_PART) and guess(rows) < MANY_ROWS else 0
    return COLUMN_PART if surely(n >= 4 * COLUMN_PART) and guess(rows) < MANY_COLUMNS else 0


def _along(x: Tensor, dim: int) -> bool:
    """Returns whether neighbors along a dimension are the nearest in memory."""
    return all(guess(s) >= guess(x.stride(dim)) for s, m in zip(x.stride(), x.shape, strict=True) if guess(m) > 1)


def _by(reduce: str) -> Callable[[Tensor, int], Tensor]:
    return lambda x, dim: SCAN(x, None, dim, reduce)


def _largest(dtype: torch.dtype) -> float:
    return torch.inf if dtype.is_floating_point else torch.iinfo(dtype).max


def _least(dtype: torch.dtype) -> float:
    return -torch.inf if dtype.is_floating_point else torch.iinfo(dtype).min


def _log_of_sums(x: Tensor, dim: int) -> Tensor:
    """Adds up exp(x) relative to the greatest element so far: where that grows, the sum before it shrinks."""
    if surely(x.shape[dim] == 1):
        return x.clone()
    if not moments.on_cpu(x) and x.dtype is torch.float32 and _along(x, dim):
        return SCAN(x, None, dim, "logsumexp")
    top = SCAN(x, None, dim, "amax")
    before = pad(top.narrow(dim, 0, x.shape[dim] - 1), dim, 1, 0, -torch.inf)
    base = torch.where(top.abs() == torch.inf, 0.0, top)
    return base + SCAN(torch.exp(x - base), torch.exp(torch.clamp(before - base, max=0.0)), dim, "sum").log()


_sum = _Running(_by("sum"), torch.sum, torch.add, lambda _: 0)
_product = _Running(_by("prod"), torch.prod, torch.mul, lambda _: 1)
_maximum = _Running(_by("amax"), torch.amax, torch.maximum, _least)
_minimum = _Running(_by("amin"), torch.amin, torch.minimum, _largest)
_log_sum = _Running(_log_of_sums, torch.logsumexp, torch.logaddexp, lambda _: -torch.inf)


def _is_scanned(dtype: torch.dtype) -> bool:
    return dtype in COMPUTED and dtype is not torch.bool


def _total(running: _Running) -> Callable[..., Any]:
    """Returns the decomposition of cumsum or cumprod."""

    def run(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Any:
        """Computes the running total along a dimension."""
        out = sum_dtype(x, dtype)
        if not _is_scanned(out):
            return NotImplemented
        if not x.dim() or surely(x.numel() == 0):
            return x.to(out, copy=True)
        return running(x.to(wide_dtype(out)), dim % x.dim()).to(out)

    return run


def _extreme(running: _Running) -> Callable[..., Any]:
    """Returns the decomposition of cummax or cummin: the extreme so far, and where it was last met. A NaN stays."""

    def run(x: Tensor, dim: int) -> Any:
        """Returns the running extremes along a dimension and their positions."""
        if not x.dim() or surely(x.numel() == 0):
            return x.clone(), torch.zeros_like(x, dtype=torch.int64)
        if x.dtype in (torch.bool, torch.uint8):
            value, at = run(x.to(torch.int16), dim)
            return value.to(x.dtype), at
        if not _is_scanned(x.dtype):
            return NotImplemented
        dim %= x.dim()
        value, n = running(x, dim), x.shape[dim]
        numbers = torch.int32 if isinstance(n, int) and n < 1 << 31 else torch.int64
        met = (x == value) | (x != x) if x.dtype.is_floating_point else x == value
        return value, _maximum(torch.where(met, position(x, dim).to(numbers), 0), dim).to(torch.int64)

    return run


@in_f32
def logcumsumexp(x: Tensor, dim: int) -> Any:
    """Scans by log(exp(a) + exp(b))."""
    if not x.dtype.is_floating_point:
        return NotImplemented
    return x.clone() if not x.dim() or surely(x.numel() == 0) else _log_sum(x, dim % x.dim())


SCANS: dict[Any, Callable[..., Any]] = {
    aten.cumsum.default: _total(_sum),
    aten.cumprod.default: _total(_product),
    aten.cummax.default: _extreme(_maximum),
    aten.cummin.default: _extreme(_minimum),
    aten.logcumsumexp.default: logcumsumexp,
}
