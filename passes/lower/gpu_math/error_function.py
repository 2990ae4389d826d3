"""The error function of f32 for GPUs."""

from ...ir.emit import Num
from ..polynomials.error_function import LARGE, SMALL
from . import hardware

MINUS_LOG2_E = -1.4426950408889634


def erf(x: Num) -> Num:
    """The error function, at most 2 ulp, without a branch: x + x*q(x*x) below 0.92, 1 - exp(-a*q(a)) with a = |x| above.
    20 instructions.

    The second polynomial, made for a <= 4.05, grows beyond it too, so that its exponential vanishes as it should.
    """
    e = x.at
    a = x.abs()
    large = 1.0 - hardware.ex2(e.horner(a, [c * MINUS_LOG2_E for c in LARGE]) * a)
    small = e.fma(e.horner(x * x, SMALL), x, x)
    return small.where(a < 0.92, large.copysign(x))
