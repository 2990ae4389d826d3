"""Decomposes functions of a float's bits: its sign, exponent and neighbors."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...half import in_compute_dtype, in_f32, of_floats, promoted_dtype

aten = torch.ops.aten

_WORDS = {torch.float32: torch.int32, torch.float64: torch.int64}
_DIGITS = {torch.float32: 23, torch.float64: 52}
_EXPONENT = {torch.float32: 8, torch.float64: 11}
"""Bits of the fraction and of the exponent."""


def _words(x: Tensor) -> Tensor:
    return x.view(_WORDS[x.dtype])


def signbit(x: Tensor) -> Any:
    """Returns whether a number is negative, as are -0 and NaN with a sign."""
    if not x.dtype.is_floating_point:
        return torch.zeros_like(x) if x.dtype is torch.bool else x < 0
    return _words(in_compute_dtype(x)) < 0


@of_floats
@in_f32
def copysign(x: Tensor, sign: Tensor) -> Any:
    """Returns |x| with the sign of another number, which may be -0 or NaN."""
    dtype = promoted_dtype(x, sign)
    if dtype not in _WORDS:
        return NotImplemented
    x, sign = torch.broadcast_tensors(x.to(dtype), sign.to(dtype))
    most = torch.iinfo(_WORDS[dtype]).max
    return ((_words(x) & most) | (_words(sign) & (-1 - most))).view(dtype)


def copysign_number(x: Tensor, sign: float) -> Any:
    """Returns |x| with the sign of a Python number."""
    return copysign(x, torch.full((), float(sign), device=x.device))


def nextafter(x: Tensor, towards: Tensor) -> Any:
    """Returns the neighbor of `x` in a direction: the number whose magnitude, as an integer, is greater or less by one."""
    dtype = promoted_dtype(x, towards)
    if dtype not in _WORDS:
        return NotImplemented
    x, towards = torch.broadcast_tensors(x.to(dtype), towards.to(dtype))
    words, least = _words(x), torch.full((), 1, dtype=_WORDS[dtype], device=x.device)
    away = (x > 0) == (towards > x)
    beside = torch.where(away, words + 1, words - 1)
    from_zero = torch.where(towards > 0, least, least + torch.iinfo(_WORDS[dtype]).min)
    found = torch.where(x == 0, from_zero, beside).view(dtype)
    return torch.where((x != x) | (towards != towards), x + towards, torch.where(x == towards, towards, found))


def frexp(x: Tensor) -> Any:
    """Splits a number into a mantissa, whose magnitude is at least 1/2 and less than 1, and an exponent of two."""
    if not x.dtype.is_floating_point:
        return NotImplemented
    value = in_compute_dtype(x)
    digits, ones = _DIGITS[value.dtype], (1 << _EXPONENT[value.dtype]) - 1
    bias = ones // 2 - 1
    tiny = value.abs() < torch.finfo(value.dtype).tiny
    words = _words(torch.where(tiny, value * 2.0**digits, value))
    exponent = torch.div(words & (ones << digits), 1 << digits, rounding_mode="trunc").to(torch.int32) - bias
    mantissa = ((words & ~(ones << digits)) | (bias << digits)).view(value.dtype)
    whole = (value == 0) | (value.abs() == torch.inf) | (value != value)
    exponent = torch.where(whole, 0, torch.where(tiny, exponent - digits, exponent))
    return torch.where(whole, value, mantissa).to(x.dtype), exponent


BITS: dict[Any, Callable[..., Any]] = {
    aten.signbit.default: signbit,
    aten.copysign.Tensor: copysign,
    aten.copysign.Scalar: copysign_number,
    aten.nextafter.default: nextafter,
    aten.frexp.Tensor: frexp,
}
