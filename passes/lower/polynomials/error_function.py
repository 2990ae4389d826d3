"""The error function of f32."""

from ...ir.emit import Num
from .exponential import short_exp

# erf(x) = x + x*q(x*x) for |x| < 0.92, relative error 2**-26
SMALL = (-0.000599940482, 0.00499483012, -0.0267677195, 0.112818457, -0.376124978, 0.128379151)
# 1 - erf(x) = exp(-x*q(x)) for 0.92 <= x <= 4.05, error of erf 2**-30.3
LARGE = (1.12315702e-05, -0.000322806212, 0.00364246755, -0.023762079, 0.106236897, 0.635151327, 1.12864852)


def erf(x: Num) -> Num:
    """The error function, at most 1.5 ulp. Above 4 it rounds to 1."""
    e = x.at
    a = x.abs()
    a = x.like(4.05).where(x.like(4.05) < a, a)
    large = 1.0 - short_exp(-(e.horner(a, LARGE) * a))
    small = e.fma(e.horner(a * a, SMALL), a, a)
    return small.where(a.compare("ult", 0.92), large).copysign(x)
