"""Decomposes the logarithm of the gamma function, digamma and its derivative. f64 stays ATen's, whose series have more terms."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...half import in_f32, of_floats
from .polynomials import polynomial

aten = torch.ops.aten

_DIGAMMA = (8.33333333333333333333e-2, -2.10927960927960927961e-2, 7.57575757575757575758e-3, -4.16666666666666666667e-3,
            3.96825396825396825397e-3, -8.33333333333333333333e-3, 8.33333333333333333333e-2)  # fmt: skip
"""The asymptotic series by 1 / x**2, the highest power first."""
_NEAR = (
    1.80915131e-05, -3.858047519e-05, 2.388160727e-05, -5.283973561e-05, 0.0001917396867, -0.000425154131,
    0.0009125944839, -0.002102242432, 0.004998996089, -0.01238494322, 0.03296498784, -0.1003172746, 0.4227843351,
)  # fmt: skip
_MIDDLE = (
    -9.122879262e-06, 2.14673011e-05, -2.346636759e-05, 5.689701407e-05, -0.0001704428095, 0.0004205714444,
    -0.001040981578, 0.002685423391, -0.007183708418, 0.02030267604, -0.06336905588, 0.2512897738,
)  # fmt: skip
"""Chebyshev interpolation of log(gamma(x)) / ((x - 1) * (x - 2)) over x from 1 to 3, by x - 2, and from 3 to 8, by (x - 5.5) /
2.5."""
_HALF_LOG_TWO_PI = 0.91893853320467274178
_ALL_INTEGERS = 1 << 23  # from here on


def _sin_pi(x: Tensor) -> Tensor:
    """Returns the magnitude of sin(pi * x)."""
    return torch.sin(math.pi * (x - torch.round(x)).abs())


@of_floats
@in_f32
def lgamma(x: Tensor) -> Any:
    """Computes log(gamma(|x|)): a polynomial up to 8, with its zeros as factors, then Stirling's series. Below 1 it moves up by one
    step, below zero it is reflected."""
    if x.dtype != torch.float32:
        return NotImplemented
    beyond = torch.where(x < 0, -1 - x, torch.where(x < 1, x - 1, x - 2))
    at = beyond + 2
    inner = torch.where(beyond < 1, polynomial(beyond, _NEAR), polynomial((beyond - 3.5) * 0.4, _MIDDLE)) * (beyond + 1) * beyond
    inverse = 1 / at
    series = polynomial(inverse * inverse, (1 / 1260, -1 / 360, 1 / 12)) * inverse
    out = torch.where(at < 8, inner, (at - 0.5) * (torch.log(at) - 1) + (series + (_HALF_LOG_TWO_PI - 0.5)))
    reflected = math.log(math.pi) - torch.log(_sin_pi(x)) - out
    out = torch.where(x < 0, reflected, torch.where(x < 1, out - torch.log(x), out))
    return torch.where((x.abs() == torch.inf) | (x < -_ALL_INTEGERS), torch.inf, out)


@of_floats
@in_f32
def digamma(x: Tensor) -> Any:
    """Computes the derivative of log(gamma): recurrence up to 10, then the asymptotic series; the reflection below zero."""
    if x.dtype != torch.float32:
        return NotImplemented
    part = x - torch.round(x)
    reflected = math.pi / torch.tan(math.pi * part)
    at = torch.where(x < 0, 1 - x, x)
    out = torch.where(x < 0, -reflected, 0.0)
    for _ in range(10):
        small = at < 10
        out = out - torch.where(small, 1 / at, 0.0)
        at = torch.where(small, at + 1, at)
    inverse = 1 / at
    square = inverse * inverse
    series = square * _DIGAMMA[0] + _DIGAMMA[1]
    for c in _DIGAMMA[2:]:
        series = series * square + c
    out = out + (torch.log(at) - 0.5 * inverse - square * series)
    out = torch.where((x < 0) & (torch.floor(x) == x), math.nan, out)
    return torch.where(x == math.inf, x, torch.where(x == 0, -1 / x, out))


@in_f32
def trigamma(x: Tensor) -> Tensor:
    """Computes the derivative of digamma as ATen does: recurrence over six steps, then the asymptotic series."""
    low = x < 0.5
    sine = _sin_pi(x)
    at = torch.where(low, 1 - x, x)
    out = torch.where(low, -((math.pi / sine) * (math.pi / sine)), 0.0)
    for _ in range(6):
        out = out + 1 / (at * at)
        at = at + 1
    inverse = 1 / (at * at)
    out = out + (1 + 1 / (2 * at) + inverse * (1 / 6 - inverse * (1 / 30 - inverse * (1 / 42)))) / at
    return torch.where(low, -out, out)


@of_floats
def polygamma(n: int, x: Tensor) -> Any:
    """Computes digamma and its derivative; further ones are ATen's."""
    if x.dtype is torch.float64 or n > 1:
        return NotImplemented
    return trigamma(x) if n else aten.digamma.default(x)


GAMMA: dict[Any, Callable[..., Any]] = {
    aten.lgamma.default: lgamma,
    aten.digamma.default: digamma,
    aten.polygamma.default: polygamma,
}
