"""tanh of f32 for GPUs."""

from ...ir.emit import Num
from ..polynomials.hyperbolic import BEND, TANH
from . import hardware

TWICE_LOG2_E = 2.8853900817779268


def tanh(x: Num) -> Num:
    """Hyperbolic tangent, at most 3 ulp: an odd polynomial below BEND, 1 - 2/(exp(2|x|) + 1) above. 16 instructions.

    The exponential may overflow: 2/inf is what it should be.
    """
    e = x.at
    a = x.abs()
    square = x * x
    small = e.fma(e.horner(square, TANH) * square, x, x)
    large = e.fma(hardware.over(1.0, hardware.ex2(a * TWICE_LOG2_E) + 1.0), -2.0, 1.0)
    return small.where(a < BEND, large).copysign(x)
