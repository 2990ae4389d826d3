"""Decomposes elementary functions of one or two numbers into arithmetic and comparisons."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...half import in_f32, promoted_dtype

aten = torch.ops.aten

_FAR = {torch.float32: (2.0**60, 2.0**90), torch.float64: (2.0**500, 2.0**700)}
"""Where squares may overflow, and lose digits below the reciprocal, and what then scales numbers."""


def _preferred(better: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Returns fmax or fmin: the better of two numbers, or the one that is a number."""

    def run(x: Tensor, y: Tensor) -> Tensor:
        """Takes `x` where it is better than `y`, or `y` is NaN."""
        dtype = promoted_dtype(x, y)
        x, y = x.to(dtype), y.to(dtype)
        return torch.where(better(x, y) | (y != y) if dtype.is_floating_point else better(x, y), x, y)

    return run


@in_f32
def hypot(x: Tensor, y: Tensor) -> Any:
    """Computes the root of the sum of squares, scaled by a power of two where these leave the range; infinite where one side is."""
    dtype = promoted_dtype(x, y)
    if dtype not in _FAR:
        return NotImplemented
    x, y, (far, factor) = x.to(dtype).abs(), y.to(dtype).abs(), _FAR[dtype]
    most = torch.maximum(x, y)
    down, up, one = (torch.full((), n, dtype=dtype, device=x.device) for n in (1 / factor, factor, 1.0))
    scale = torch.where(most > far, down, torch.where(most < 1 / far, up, one))
    a, b = x * scale, y * scale
    return torch.where((x == math.inf) | (y == math.inf), math.inf, torch.sqrt(a * a + b * b) / scale)


@in_f32
def ldexp(x: Tensor, exponent: Tensor) -> Tensor:
    """Multiplies by a power of two, as eager does."""
    return torch.mul(x, torch.pow(2.0, exponent))


def angle(x: Tensor) -> Tensor:
    """Returns pi below zero, and 0 elsewhere; NaN stays NaN."""
    dtype = x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
    turned = torch.where(x < 0, torch.full((), math.pi, dtype=dtype, device=x.device), 0.0)
    return torch.where(x != x, x, turned) if x.dtype.is_floating_point else turned


@in_f32
def round_decimals(x: Tensor, *, decimals: int) -> Any:
    """Rounds to a number of decimals by scaling, as eager does."""
    if not x.dtype.is_floating_point:
        return NotImplemented
    if not decimals:
        return torch.round(x)
    scale = torch.full((), 10.0 ** abs(decimals), dtype=x.dtype, device=x.device)
    return torch.round(x * scale) / scale if decimals > 0 else torch.round(x / scale) * scale


ELEMENTARY: dict[Any, Callable[..., Any]] = {
    aten.fmax.default: _preferred(torch.ge),
    aten.fmin.default: _preferred(torch.le),
    aten.hypot.default: hypot,
    aten.ldexp.Tensor: ldexp,
    aten.angle.default: angle,
    aten.round.decimals: round_decimals,
}
