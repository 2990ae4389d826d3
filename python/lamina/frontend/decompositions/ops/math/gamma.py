"""Decomposes the digamma function and its derivative. f64 stays ATen's, whose series have more terms."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...half import in_f32

aten = torch.ops.aten

_DIGAMMA = (8.33333333333333333333e-2, -2.10927960927960927961e-2, 7.57575757575757575758e-3, -4.16666666666666666667e-3,
            3.96825396825396825397e-3, -8.33333333333333333333e-3, 8.33333333333333333333e-2)  # fmt: skip
"""The asymptotic series by 1 / x**2, the highest power first."""


def _sin_pi(x: Tensor) -> Tensor:
    """Returns the magnitude of sin(pi * x)."""
    return torch.sin(math.pi * (x - torch.round(x)).abs())


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


def polygamma(n: int, x: Tensor) -> Any:
    """Computes digamma and its derivative; further ones are ATen's."""
    if x.dtype is torch.float64 or not x.dtype.is_floating_point or n > 1:
        return NotImplemented
    return trigamma(x) if n else aten.digamma.default(x)


GAMMA: dict[Any, Callable[..., Any]] = {aten.digamma.default: digamma, aten.polygamma.default: polygamma}
