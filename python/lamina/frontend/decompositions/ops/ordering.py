"""Maps elements to integers of the same order, and back, so that an element and its position can be compared as one integer."""

import torch
from torch import Tensor

from ..half import in_compute_dtype, wide_dtype
from .index import position

PLACES = (1 << 31) - 1
LEAST = -(1 << 63)
_BITS = {torch.float32: (torch.int32, PLACES), torch.float64: (torch.int64, (1 << 63) - 1)}
"""The integers that hold a float's bits, and all of these but the sign."""


def order_of(x: Tensor, largest: bool) -> Tensor:
    """Returns i64 in the order of the elements, or in the opposite one. NaN is the greatest element."""
    if x.dtype.is_floating_point:
        x = in_compute_dtype(x)
        type_, magnitude = _BITS[x.dtype]
        bits = x.view(type_)
        x = torch.where(x != x, magnitude, torch.where(bits < 0, bits ^ magnitude, bits))
    return x.to(torch.int64) if largest else ~x.to(torch.int64)


def elements_of(order: Tensor, dtype: torch.dtype, largest: bool) -> Tensor:
    """Returns the elements that have these places in the order."""
    order = order if largest else ~order
    if not dtype.is_floating_point:
        return order.to(dtype)
    float_ = wide_dtype(dtype)
    type_, magnitude = _BITS[float_]
    bits = order.to(type_)
    return torch.where(bits < 0, (bits ^ magnitude).view(float_), bits.view(float_)).to(dtype)  # no view of other memory


def order_keys(order: Tensor, dim: int) -> Tensor:
    """Returns numbers of 32 bits, held in i64, with their places behind them: no two are equal, and of equal ones the first is the
    greatest."""
    return (order << 32) + (PLACES - position(order, dim))


def first_extreme(x: Tensor, dim: int, largest: bool) -> tuple[Tensor, Tensor]:
    """Returns the greatest or the least of elements of at most 32 bits along a dimension, which is kept, and its first place. A NaN
    is both. Zeros of both signs are equal."""
    signed = x.dtype.is_floating_point
    order = order_of(torch.where(x == 0, 0, x) if signed else x, largest)
    if signed and not largest:
        order = torch.where(x != x, PLACES, order)
    found = torch.amax(order_keys(order, dim), [dim], True)
    value = elements_of(found >> 32, x.dtype, largest)
    if signed and not largest:
        value = torch.where((found >> 32) == PLACES, torch.nan, value)
    return value, PLACES - (found & PLACES)
