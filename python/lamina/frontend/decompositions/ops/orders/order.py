"""Decomposes selections of the greatest or least elements of rows, which compare them as integers."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from ....fx.ops.sort_op import SORT
from ...half import in_compute_dtype
from ...undecided import guess, surely
from .. import moments
from ..index import position
from ..ordering import LEAST, PLACES, elements_of, order_keys, order_of
from ..reduce import max_dim, min_dim

aten = torch.ops.aten

# Elements that are found one by one, and how many elements are read for that: more take a sort's time.
MOST_FOUND, MOST_READ = 32, 1 << 14
COUNTED, COUNTED_ACROSS = 128, 64  # elements of a row, or of a column, that is sorted by counting, for each, those before it
NETWORK, NETWORK_ON_GPU = 256, 2048  # elements of a row whose kernel is compiled soon enough, as it has all steps of a sort


def _first(order: Tensor, k: int, dim: int) -> tuple[Tensor, Tensor]:
    """Returns the k greatest numbers of 32 bits, held in i64, and their places. With its place behind it, each number differs from
    all others, and the next one is the greatest of those that are less."""
    numbered = order_keys(order, dim)
    found = [torch.amax(numbered, [dim], True)]
    while len(found) < k:
        found.append(torch.amax(torch.where(numbered < found[-1], numbered, LEAST), [dim], True))
    every = torch.cat(found, dim)
    return every >> 32, PLACES - (every & PLACES)


def _first_wide(order: Tensor, k: int, dim: int) -> tuple[Tensor, Tensor]:
    """Returns the k greatest numbers of 64 bits, and their places, which are searched by themselves."""
    at, none = position(order, dim), order.shape[dim] - 1
    values, places, left = list[Tensor](), list[Tensor](), torch.full_like(order, True, dtype=torch.bool)
    for _ in range(k):
        if values:
            left = (order < values[-1]) | ((order == values[-1]) & (at > places[-1]))
        values.append(torch.amax(torch.where(left, order, LEAST), [dim], True))
        places.append(torch.amin(torch.where(left & (order == values[-1]), at, none), [dim], True))
    return torch.cat(values, dim), torch.cat(places, dim)


def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Takes the first element k times, each time of those behind the one before. Many, and a symbolic number in a row of known
    length, are the first ones of a sort."""
    fixed = isinstance(k, int)
    if x.dtype is torch.bool or surely(x.numel() == 0) or (k < 1 if fixed else not isinstance(x.shape[dim], int)):
        return NotImplemented
    dim %= x.dim()
    if fixed and k == 1 and (largest or not x.dtype.is_floating_point):  # the least float is a NaN for amin
        return (max_dim if largest else min_dim)(x, dim, True)
    if not fixed or k > MOST_FOUND or k * guess(x.shape[dim]) > MOST_READ:
        found = sort(x, dim, largest)
        return found if found is NotImplemented else tuple(t.narrow(dim, 0, k).clone() for t in found)
    values, places = (_first if x.dtype.itemsize < 8 else _first_wide)(order_of(x, largest), k, dim)
    return elements_of(values, x.dtype, largest), places


def _ranks(x: Tensor, dim: int, descending: bool) -> Tensor:
    """Returns how many elements of its row come before each element. Zeros of both signs are equal."""
    order = order_of(torch.where(x == 0, 0, x) if x.dtype.is_floating_point else x, descending)
    if x.dtype.itemsize < 8:
        numbered = order_keys(order, dim)
        before = numbered.unsqueeze(dim) > numbered.unsqueeze(dim + 1)
    else:
        mine, other, at = order.unsqueeze(dim + 1), order.unsqueeze(dim), position(order, dim)
        before = (other > mine) | ((other == mine) & (at.unsqueeze(dim) < at.unsqueeze(dim + 1)))
    return before.sum(dim + 1)


def _sorted(x: Tensor, dim: int, descending: bool) -> tuple[Tensor, Tensor]:
    """Sorts the elements as integers of 32 bits with their places behind them, and the sign of a zero behind these."""
    signed = x.dtype.is_floating_point
    order, last = order_of(torch.where(x == 0, 0, x) if signed else x, not descending), position(x, dim)
    if signed:
        last = (last << 1) + ((x == 0) & (1 / in_compute_dtype(x) < 0))
    found = SORT((order << 32) + last, dim)
    values, last = elements_of(found >> 32, x.dtype, not descending), found & PLACES
    return (torch.where((last & 1) != 0, -0.0, values), last >> 1) if signed else (values, last)


def sort(x: Tensor, dim: int = -1, descending: bool = False) -> Any:
    """Sorts rows; equal elements keep their order. Elements of 64 bits, behind which no places fit, and a CPU's columns are put
    where the number of those before them says."""
    if surely(x.numel() == 0):
        return NotImplemented
    dim %= x.dim()
    along = surely(x.stride(dim) == 1)
    most = NETWORK_ON_GPU if not moments.on_cpu(x) else NETWORK if along else 0
    if x.dtype.itemsize < 8 and isinstance(x.shape[dim], int) and x.shape[dim] <= most:
        return tuple(t.transpose(dim, -1) for t in _sorted(x.transpose(dim, -1), x.dim() - 1, descending))
    if not surely(x.shape[dim] <= (COUNTED if along else COUNTED_ACROSS)):
        return NotImplemented
    ranks = _ranks(x, dim, descending)
    places = position(x, dim).expand(x.shape)
    return tuple(aten.scatter.src(torch.zeros_like(t, memory_format=torch.contiguous_format), dim, ranks, t) for t in (x, places))


def sort_stable(x: Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    """Sorts as above."""
    return sort(x, dim, descending)


def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """Sorts short rows; by a symbolic number, those of known length."""
    known = isinstance(k, int) or isinstance(x.shape[dim], int)
    if x.dtype is torch.bool or not known or (found := sort(x, dim)) is NotImplemented:
        return NotImplemented
    return tuple(t.narrow(dim, k - 1, 1).clone() if keepdim else t.select(dim, k - 1).clone() for t in found)


def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """Counts for each element of a short row those that are equal to it. Takes the least of the most frequent ones, and its last
    place. Where a row has a NaN, eager's result depends on its sort."""
    if surely(x.numel() == 0) or not surely(x.shape[dim] <= COUNTED_ACROSS):
        return NotImplemented
    dim %= x.dim()
    count = (x.unsqueeze(dim) == x.unsqueeze(dim + 1)).sum(dim + 1).clamp(min=1)
    order = order_of(torch.where(x == 0, 0, x) if x.dtype.is_floating_point else x, False)
    order = torch.where(count == count.amax([dim], True), order, LEAST)
    at = torch.where(order == order.amax([dim], True), position(x, dim), 0).amax([dim], True)
    value = torch.gather(x, dim, at)
    return (value, at) if keepdim else (value.squeeze(dim), at.squeeze(dim))


def _median(x: Tensor, dim: int, keepdim: bool, skips: bool) -> Any:
    """Takes the lower median of short rows from their sort, in which NaN come last. skips: leave them out; else the first one is
    the median of its row."""
    if x.dtype is torch.bool or (found := sort(x, dim)) is NotImplemented:
        return NotImplemented
    dim, n = dim % x.dim(), x.shape[dim]
    middle: Any = (n - 1) // 2
    if not x.dtype.is_floating_point:
        value, at = (t.narrow(dim, middle, 1).clone() for t in found)
    elif skips:
        middle = torch.clamp(((x == x).sum(dim, True) - 1) // 2, min=0)
        value, at = (torch.gather(t, dim, middle) for t in found)
    else:
        none = torch.amin(torch.where(x != x, position(x, dim), n), [dim], True)
        value, at = (t.narrow(dim, middle, 1) for t in found)
        value, at = torch.where(none < n, torch.nan, value), torch.where(none < n, none, at)
    return (value, at) if keepdim else (value.squeeze(dim), at.squeeze(dim))


def _medians(skips: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Returns the decompositions along a dimension, and of all elements."""

    def along(x: Tensor, dim: int, keepdim: bool = False) -> Any:
        """Returns the medians along `dim`, and their places."""
        return _median(x, dim, keepdim, skips)

    def whole(x: Tensor) -> Any:
        """Returns the median of all elements."""
        found = _median(x.reshape(-1), 0, False, skips)
        return found if found is NotImplemented else found[0]

    return along, whole


_median_along, _median_of_all = _medians(False)
_nanmedian_along, _nanmedian_of_all = _medians(True)


def _of_a_number(along: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a decomposition along a dimension so that it takes a number as a row of one element."""

    @wraps(along)
    def run(x: Tensor, *args: Any, **named: Any) -> Any:
        """Returns results without dimensions for a tensor that has none."""
        if x.dim():
            return along(x, *args, **named)
        found = along(x.reshape(1), *args, **named)
        return found if found is NotImplemented else tuple(t.reshape(()) for t in found)

    return run


ORDERS: dict[Any, Callable[..., Any]] = {
    aten.topk.default: _of_a_number(topk),
    aten.sort.default: _of_a_number(sort),
    aten.sort.stable: _of_a_number(sort_stable),
    aten.kthvalue.default: _of_a_number(kthvalue),
    aten.mode.default: _of_a_number(mode),
    aten.median.dim: _of_a_number(_median_along),
    aten.median.default: _median_of_all,
    aten.nanmedian.dim: _of_a_number(_nanmedian_along),
    aten.nanmedian.default: _nanmedian_of_all,
}
