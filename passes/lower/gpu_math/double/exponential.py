"""exp2, log2 and log10 of f64, and the parts of exp that powers need."""

from torch_mlir import ir

from ....ir.emit import Num
from ...polynomials import double
from ...polynomials.exponential import clamp

LN2 = 0.6931471805599453
LOG2_E = 1.4426950408889634, 2.0355273740931033e-17  # in two parts
LOG10_E = 0.4342944819032518
TINY = 2.0**-1022


def exp2(x: Num) -> Num:
    """2**x, at most 1.5 ulp."""
    e = x.at
    x = clamp(x, -1080.0, 1030.0)
    whole = x + double.ROUND
    r = (x - (whole - double.ROUND)) * LN2
    return scaled(e.fma(e.fma(e.horner(r, double.EXP), r, 1.0), r, 1.0), whole)


def log2(x: Num) -> Num:
    """Logarithm to base 2, at most 2.5 ulp; exact for powers of two."""
    e = x.at
    k, f = split(x)
    curve = double._series(k.like(0.0), f)
    return double._edges(x, e.fma(curve, LOG2_E[0], k) + curve * LOG2_E[1])


def log10(x: Num) -> Num:
    """Logarithm to base 10, at most 2.5 ulp."""
    return double.log(x) * LOG10_E


def split(x: Num) -> tuple[Num, Num]:
    """Returns k and f with x = 2**k * (1 + f), 1 + f in [sqrt(1/2), sqrt(2)), for positive finite x."""
    small = x < TINY
    normal = (x * 2.0**54).where(small, x)
    exponent = (normal.bits() - double.SQRT_HALF) & -(1 << 52)
    f = (normal.bits() - exponent).as_float() - 1.0
    return double._exponent(exponent) - x.at.constant(54.0, x.element).where(small, 0.0), f


def exp_of_sum(high: Num, low: Num) -> Num:
    """e**(high + low) for a low that is small compared to 1."""
    e = high.at
    bounded = clamp(high, -746.0, 710.0)
    whole, r = double._reduce(bounded)
    r = r + low
    return scaled(e.fma(e.fma(e.horner(r, double.EXP), r, 1.0), r, 1.0), whole)


def scaled(x: Num, whole: Num) -> Num:
    """Returns x * 2**n for whole = n + ROUND, in two factors."""
    count = (whole.bits() - double.ROUND_BITS).cast("arith.trunci", ir.IntegerType.get_signless(32))
    half = count >> 1
    return x * double._power_of_two(half) * double._power_of_two(count - half)
