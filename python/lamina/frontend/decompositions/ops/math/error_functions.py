"""Decomposes the complementary error function erfc(x), its scaled form erfcx(x) = exp(x * x) * erfc(x), and the inverse error
function erfinv(x). f64 stays ATen's, whose series have more terms."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...half import in_f32, of_floats
from .polynomials import polynomial

aten = torch.ops.aten

_SCALED = (
    -1.989984852e-05, -2.035568082e-05, 0.0001280521855, 0.0002218730711, -0.0004387860747, -0.001464413517,
    0.001265938821, 0.008724787514, -0.008033120319, -0.05422030945, 0.1640512243, -0.1660303798, -0.09276382602,
    1.276978381,
)  # fmt: skip
"""Chebyshev interpolation of (1 + 2 * a) * exp(a * a) * erfc(a) by (a - 2) / (a + 2)."""
_CENTER = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip
"""erfinv(x) / x by w - 2.5 and by sqrt(w) - 3, where w = -log(1 - x * x) is below 5 or not: M. Giles, "Approximating the erfinv
function", 2011."""
_SMALL_POWER = (1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0)
_HIGH = -4096
"""Masks the bits of a float whose square is exact."""


def _scaled(a: Tensor) -> Tensor:
    """Returns erfcx(a) of a number that is not negative."""
    return polynomial(1 - 4 / (a + 2), _SCALED) / (1 + 2 * a)


def _power(x: Tensor, sign: int) -> Tensor:
    """Returns exp(sign * x * x), with no error from the rounding of the square."""
    high = (x.view(torch.int32) & _HIGH).view(torch.float32)
    low = (x - high) * (x + high)  # at most an eighth where x is at most 11
    return torch.exp(sign * (high * high)) * polynomial(sign * low, _SMALL_POWER)


@of_floats
@in_f32
def erfc(x: Tensor) -> Any:
    """Computes exp(-x * x) * erfcx(x); 2 - erfc(-x) for negative numbers."""
    if x.dtype != torch.float32:
        return NotImplemented
    a = torch.clamp(x.abs(), max=11.0)  # beyond, it is 0
    out = _power(a, -1) * _scaled(a)
    return torch.where(x < 0, 2 - out, out)


@of_floats
@in_f32
def erfcx(x: Tensor) -> Any:
    """Computes erfcx by a polynomial; 2 * exp(x * x) - erfcx(-x) for negative numbers."""
    if x.dtype != torch.float32:
        return NotImplemented
    out = _scaled(x.abs())
    return torch.where(x < 0, 2 * _power(torch.clamp(x, min=-11.0), 1) - out, out)


@of_floats
@in_f32
def erfinv(x: Tensor) -> Any:
    """Computes erfinv by one polynomial for the center, and one for the tails; infinite at 1 and -1."""
    if x.dtype != torch.float32:
        return NotImplemented
    w = -torch.log((1 - x) * (1 + x))
    factor = torch.where(w < 5, polynomial(w - 2.5, _CENTER), polynomial(torch.sqrt(w) - 3, _TAIL))
    return torch.where(x.abs() == 1, x * torch.inf, factor * x)


ERROR_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    aten.erfc.default: erfc,
    aten.special_erfcx.default: erfcx,
    aten.erfinv.default: erfinv,
}
