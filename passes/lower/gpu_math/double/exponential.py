"""exp2, log2 and log10 of f64, and the parts of exp that powers need."""

from ....ir.emit import Num
from ...polynomials import double
from ...polynomials.exponential import clamp, tail
from ...polynomials.logarithm import edges

LN2 = 0.6931471805599453
LOG2_E = 1.4426950408889634, 2.0355273740931033e-17  # in two parts
LOG10_E = 0.4342944819032518


def exp2(x: Num) -> Num:
    """2**x, at most 1.5 ulp."""
    x = clamp(x, -1080.0, 1030.0)
    whole = x + double.ROUND
    r = (x - (whole - double.ROUND)) * LN2
    return double.scale(tail(r, double.EXP), whole)


def log2(x: Num) -> Num:
    """Logarithm to base 2, at most 2.5 ulp; exact for powers of two."""
    e = x.at
    k, f = double.split(x)
    curve = double.series(k.like(0.0), f)
    return edges(x, e.fma(curve, LOG2_E[0], k) + curve * LOG2_E[1])


def log10(x: Num) -> Num:
    """Logarithm to base 10, at most 2.5 ulp."""
    return double.log(x) * LOG10_E


def exp_of_sum(high: Num, low: Num) -> Num:
    """e**(high + low) for a low that is small compared to 1."""
    whole, r = double.reduce(clamp(high, -746.0, 710.0))
    return double.scale(tail(r + low, double.EXP), whole)
