"""Hyperbolic functions of f64 and their inverses, by the formulas of polynomials.hyperbolic."""

from ....ir.emit import Num
from ...polynomials.double import exp, expm1, log, log1p

LN2 = 0.6931471805599453
FAR = 709.0  # above it e**a overflows before e**a / 2 does


def sinh(x: Num) -> Num:
    """Hyperbolic sine, at most 4 ulp."""
    a = x.abs()
    t = expm1(a)
    near = (t + t / (t + 1.0)) * 0.5
    return _half_exp(a).where(a > FAR, near).copysign(x)


def cosh(x: Num) -> Num:
    """Hyperbolic cosine, at most 3 ulp."""
    a = x.abs()
    t = exp(a)
    return _half_exp(a).where(a > FAR, x.at.fma(t, 0.5, 0.5 / t))


def asinh(x: Num) -> Num:
    """Inverse hyperbolic sine, at most 4 ulp."""
    a = x.abs()
    near = log1p(a + a * a / ((a * a + 1.0).sqrt() + 1.0))
    return (log(a) + LN2).where(a > 2.0**60, near).copysign(x)


def acosh(x: Num) -> Num:
    """Inverse hyperbolic cosine, at most 4 ulp; NaN below 1."""
    t = x - 1.0
    near = log1p(t + x.at.fma(t, t, t + t).sqrt())
    return (log(x) + LN2).where(x > 2.0**60, near).where(x >= 1.0, float("nan"))


def atanh(x: Num) -> Num:
    """Inverse hyperbolic tangent, at most 4 ulp; NaN outside [-1, 1]."""
    a = x.abs()
    return (log1p((a + a) / (1.0 - a)) * 0.5).copysign(x)


def _half_exp(a: Num) -> Num:
    """e**a / 2 where e**a may overflow."""
    half = exp(a * 0.5)
    return half * 0.5 * half
