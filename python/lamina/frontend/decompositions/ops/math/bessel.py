"""Decomposes the modified Bessel functions of the first kind, of order 0 and 1. f64 stays ATen's, whose series have more terms."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...half import in_f32, of_floats
from .polynomials import polynomial

aten = torch.ops.aten

_NEAR_ZERO = (
    -0.0008179725461, 0.00197830876, -0.0008991624062, 0.001240379473, -0.007766332662, 0.01450777764, -0.01909066415,
    0.02862528436, -0.0431948777, 0.05732588823, -0.06950006318, 0.07916705743, -0.08496741818, 0.08735404008,
    -0.08904328936, 0.09451522841, -0.1130043278, 0.2070019237,
)  # fmt: skip
_NEAR_ONE = (
    -0.0001193158151, 0.0003070296457, -0.000221153768, 0.0004129778383, -0.001666236555, 0.003358929887, -0.005457398639,
    0.009369502835, -0.0155984901, 0.02376165918, -0.03366601115, 0.04465968645, -0.05528056338, 0.06376886448,
    -0.06848258648, 0.06805754492, -0.06112433815, 0.04468771022,
)  # fmt: skip
"""Chebyshev interpolation of exp(-a) * I0(a) and of exp(-a) * I1(a) / a over a from 0 to 8, by a / 4 - 1."""
_FAR_ZERO = (
    1.082989822e-07, 3.631710293e-07, 1.476792106e-06, 1.111152543e-05, 0.0001362168429, 0.003360555849, 0.4021765094,
)  # fmt: skip
_FAR_ONE = (
    -1.221249842e-07, -4.215554358e-07, -1.826714499e-06, -1.500332303e-05, -0.000219236669, -0.009749581517, 0.389398459,
)  # fmt: skip
"""Chebyshev interpolation of sqrt(a) * exp(-a) * I(a) over a from 8 on, by 16 / a - 1."""


def _scaled(x: Tensor, order: int) -> Tensor:
    """Returns exp(-|x|) times the function of |x|."""
    a = x.abs()
    near = polynomial(torch.clamp(a, max=8.0) * 0.25 - 1, (_NEAR_ZERO, _NEAR_ONE)[order])
    far = polynomial(16 / a - 1, (_FAR_ZERO, _FAR_ONE)[order]) * torch.rsqrt(a)
    return torch.where(a <= 8, near * a if order else near, far)


def _bessel(order: int, scaled: bool) -> Callable[..., Any]:
    """Returns the decomposition of a function, or of its scaled form."""

    @of_floats
    @in_f32
    def run(x: Tensor) -> Any:
        """Computes the function of f32; others are left to ATen."""
        if x.dtype != torch.float32:
            return NotImplemented
        out = _scaled(x, order)
        out = out if scaled else out * torch.exp(x.abs())
        return torch.where(x < 0, -out, out) if order else out

    return run


BESSEL: dict[Any, Callable[..., Any]] = {
    aten.i0.default: _bessel(0, False),
    aten.special_i0e.default: _bessel(0, True),
    aten.special_i1.default: _bessel(1, False),
    aten.special_i1e.default: _bessel(1, True),
}
