"""Decomposes searches in sorted rows into gathers that halve intervals, and repetitions of elements into counts of where they
end."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ....fx.ops.check_op import CHECK
from ...undecided import is_unbacked, surely

aten = torch.ops.aten

_SHORT, _LONGEST = 16, 40
"""Bits in the lengths of rows of symbolic length: those of most, and of the longest that memory holds."""


def searchsorted(
    row: Tensor, x: Tensor, *, out_int32: bool = False, right: bool = False, side: str | None = None, sorter: Tensor | None = None
) -> Any:
    """Halves the interval in which a value may stand, in as many steps as there are bits in the row's length, or in the
    greatest length of its kind where that is symbolic.

    Returns how many elements of the row stand before the value: those less than it, or not greater (`right`). NaN stands last.
    """
    n = row.shape[-1]
    if is_unbacked(n) or not n or surely(x.numel() == 0):
        return NotImplemented
    before = torch.le if right or side == "right" else torch.lt
    length = torch.full((), n, dtype=torch.int64, device=x.device)
    found = torch.zeros(x.shape, dtype=torch.int64, device=x.device)
    for bit in reversed(range(n.bit_length() if isinstance(n, int) else _SHORT if n < 1 << _SHORT else _LONGEST)):
        ahead = found + (1 << bit)
        at = torch.minimum(ahead, length) - 1
        at = at if sorter is None else _elements(sorter, at)
        value = _elements(row, at)
        stands = before(value, x) | (x != x) if x.dtype.is_floating_point else before(value, x)
        found = torch.where((ahead <= length) & stands, ahead, found)
    return found.to(torch.int32) if out_int32 else found


def _elements(row: Tensor, at: Tensor) -> Tensor:
    """Returns the elements of one row, or of as many as there are rows of places."""
    return aten.index.Tensor(row, [at]) if row.dim() == 1 else row.gather(-1, at)  # type: ignore[no-any-return]


def searchsorted_number(row: Tensor, x: float, **named: Any) -> Any:
    """Finds the place of a number."""
    return searchsorted(row, torch.full((), x, device=row.device), **named)


def bucketize_number(x: float, row: Tensor, **named: Any) -> Any:
    """Finds the interval that a number is in."""
    return searchsorted_number(row, x, **named)


def bucketize(x: Tensor, row: Tensor, *, out_int32: bool = False, right: bool = False) -> Any:
    """Finds the interval between the boundaries in a row that each value is in."""
    return searchsorted(row, x, out_int32=out_int32, right=right)


def repeat_interleave(repeats: Tensor, *, output_size: int | None = None) -> Any:
    """Returns for each of `output_size` places the number of the element that is repeated there: how many have ended before.
    NotImplemented without a size, which the values decide then."""
    if output_size is None or repeats.dtype not in (torch.int32, torch.int64) or surely(repeats.numel() == 0):
        return NotImplemented
    counts = torch.where(CHECK(repeats >= 0, "repeats can not be negative"), repeats, 0)
    ends = counts.cumsum(0, dtype=torch.int64)
    ended = torch.zeros(output_size + 1, dtype=torch.int64, device=repeats.device)
    ended = aten.scatter_add.default(ended, 0, ends.clamp(max=output_size), torch.ones_like(ends))
    fits = CHECK(ends[-1] == output_size, "allocated size does not match required size")
    return torch.where(fits, ended[:output_size].cumsum(0), 0).to(repeats.dtype)


SEARCHES: dict[Any, Callable[..., Any]] = {
    aten.bucketize.Tensor: bucketize,
    aten.bucketize.Scalar: bucketize_number,
    aten.searchsorted.Tensor: searchsorted,
    aten.searchsorted.Scalar: searchsorted_number,
    aten.repeat_interleave.Tensor: repeat_interleave,
}
