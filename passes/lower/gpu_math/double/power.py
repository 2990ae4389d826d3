"""powf and fpowi of f64."""

from ....ir.emit import Num
from ...polynomials import double
from .exponential import exp_of_sum, split


def powf(x: Num, y: Num) -> Num:
    """x**y, at most 1.5 ulp and a quarter for each unit of |y log x|, which is up to 745: e**(y log|x|) with a logarithm of 55 bits
    in two parts. Signs and special values are those of C's pow."""
    e = x.at
    a = x.abs()
    high, low = _log(a)
    product = y * high
    rest = e.fma(y, high, -product) + y * low
    rest = rest.where(product.abs() < 800.0, 0.0)  # beyond, the result is 0 or infinite, and the rest large or NaN
    value = exp_of_sum(product, rest)
    one = e.constant(1.0, x.element)
    value = one.where(a.compare("oeq", 1.0) & y.compare("ord", y), value)
    whole = _truncated(y).compare("oeq", y)
    half = y * 0.5
    odd = whole & _truncated(half).compare("one", half)
    value = (-value).where((x.bits() < 0) & odd, value)
    value = x.like(float("nan")).where((x < 0.0) & x.compare("one", float("-inf")) & (whole ^ 1), value)
    value = (x + y).where(x.is_nan() | y.is_nan(), value)
    return one.where(x.compare("oeq", 1.0) | y.compare("oeq", 0.0), value)


def fpowi(x: Num, n: Num) -> Num:
    """x**n with an integer n."""
    return powf(x, n.cast("arith.sitofp", x.element))


def _log(x: Num) -> tuple[Num, Num]:
    """Logarithm of a non-negative x as a sum of two values; that of 0 and infinity is in the first one. It is k ln 2 + 2s + s**3
    q(s*s) with s = f/(2 + f)."""
    e = x.at
    k, f = split(x)
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


def _truncated(x: Num) -> Num:
    return x.at.make("math.trunc", x.value.type, x)
