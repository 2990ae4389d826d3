"""powf and fpowi of f64."""

from ....ir.emit import Num
from ...polynomials import double
from ...polynomials.power import with_special_values
from .exponential import exp_of_sum


def powf(x: Num, y: Num) -> Num:
    """x**y, at most 1.5 ulp and a quarter for each unit of |y log x|, which is up to 745: e**(y log|x|) with a logarithm of 55 bits
    in two parts. Signs and special values are those of C's pow."""
    e = x.at
    a = x.abs()
    high, low = _log(a)
    product = y * high
    rest = e.fma(y, high, -product) + y * low
    rest = rest.where(product.abs() < 800.0, 0.0)  # beyond, the result is 0 or infinite, and the rest large or NaN
    return with_special_values(x, a, y, exp_of_sum(product, rest))


def fpowi(x: Num, n: Num) -> Num:
    """x**n with an integer n."""
    return powf(x, n.cast("arith.sitofp", x.element))


def _log(x: Num) -> tuple[Num, Num]:
    """Logarithm of a non-negative x as a sum of two values; that of 0 and infinity is in the first one. It is k ln 2 + 2s + s**3
    q(s*s) with s = f/(2 + f)."""
    e = x.at
    k, f = double.split(x)
    bottom = f + 2.0
    s = f / bottom
    lost = f - (bottom - 2.0)
    s_low = e.fma(-s, lost, e.fma(-s, bottom, f)) / bottom
    z = s * s
    base, twice = k * double.LN2_HI, s + s
    high = base + twice
    low = (twice - (high - base)) + e.fma(k, double.LN2_LO, e.fma(s * z, e.horner(z, double.LOG), s_low + s_low))
    high, low = high + low, low - ((high + low) - high)
    high = x.where(x.compare("uge", float("inf")), high)
    return high.like(float("-inf")).where(x.compare("oeq", 0.0), high), low
