"""Decomposes the inverse of the normal distribution function."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...half import in_f32, of_floats
from .polynomials import polynomial

aten = torch.ops.aten

_CENTER = (
    (-59.9633501014107895267, 98.0010754185999661536, -56.6762857469070293439, 13.9312609387279679503,
     -1.23916583867381258016),
    (1.0, 1.95448858338141759834, 4.67627912898881538453, 86.3602421390890590575, -225.462687854119370527,
     200.260212380060660359, -82.0372256168333339912, 15.9056225126211695515, -1.18331621121330003142),
)  # fmt: skip
_TAIL = (
    (4.05544892305962419923, 31.5251094599893866154, 57.1628192246421288162, 44.0805073893200834700,
     14.6849561928858024014, 2.18663306850790267539, -0.140256079171354495875, -0.0350424626827848203418,
     -0.000857456785154685413611),
    (1.0, 15.7799883256466749731, 45.3907635128879210584, 41.3172038254672030440, 15.0425385692907503408,
     2.50464946208309415979, -0.142182922854787788574, -0.0380806407691578277194, -0.000933259480895457427372),
)  # fmt: skip
_FAR_TAIL = (
    (3.23774891776946035970, 6.91522889068984211695, 3.93881025292474443415, 1.33303460815807542389,
     0.201485389549179081538, 0.0123716634817820021358, 0.000301581553508235416007, 2.65806974686737550832e-06,
     6.23974539184983293730e-09),
    (1.0, 6.02427039364742014255, 3.67983563856160859403, 1.37702099489081330271, 0.216236993594496635890,
     0.0134204006088543189037, 0.000328014464682127739104, 2.89247864745380683936e-06, 6.79019408009981274425e-09),
)  # fmt: skip
"""Numerators and denominators: by the square of the distance from a half; by 1 / z where z, the square root of -2 log y, is below
8, and beyond. S. L. Moshier, Cephes Mathematical Library, ndtri.c."""
_EDGE = math.exp(-2)


def _quotient(x: Tensor, coefficients: tuple[tuple[float, ...], tuple[float, ...]]) -> Tensor:
    return polynomial(x, coefficients[0]) / polynomial(x, coefficients[1])


@of_floats
@in_f32
def ndtri(y: Tensor) -> Tensor:
    """Returns the number that a standard normal variable is below with probability `y`: a rational function for the center, and
    two for the tails."""
    upper = y > 1 - _EDGE
    rest = torch.where(upper, 1 - y, y)
    off = rest - 0.5
    square = off * off
    center = (off + off * (square * _quotient(square, _CENTER))) * math.sqrt(2 * math.pi)
    z = torch.sqrt(-2 * torch.log(torch.clamp(rest, max=_EDGE)))
    inverse = 1 / z
    tail = z - torch.log(z) * inverse - inverse * torch.where(z < 8, _quotient(inverse, _TAIL), _quotient(inverse, _FAR_TAIL))
    out = torch.where(rest > _EDGE, center, torch.where(upper, tail, -tail))
    return torch.where(y == 0, -torch.inf, torch.where(y == 1, torch.inf, out))


NORMAL: dict[Any, Callable[..., Any]] = {aten.special_ndtri.default: ndtri}
