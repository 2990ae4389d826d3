"""Hyperbolic functions of f32 and their inverses."""

from ...ir.emit import Num
from .exponential import EXP, clamp, power_of_two, quarter_exp, quarter_expm1, reduce, tail
from .logarithm import log, log1p

# tanh(x) = x + x**3*q(x*x) for |x| < BEND, relative error 2**-28.4
TANH = (-0.00589796621, 0.0207986254, -0.0537847169, 0.133319363, -0.333332986)
BEND = 0.6
OVERFLOW = 89.5  # sinh and cosh are infinite above 89.416


def tanh(x: Num) -> Num:
    """Hyperbolic tangent, at most 1.5 ulp: an odd polynomial below BEND, 1 - 2/(exp(2|x|) + 1) above; 1 from 9.02 on."""
    e = x.at
    a = x.abs()
    square = x * x
    small = e.fma(e.horner(square, TANH) * square, x, x)
    double = a + a
    double = x.like(20.0).where(x.like(20.0) < double, double)
    whole, r = reduce(double)
    power = tail(r, EXP) * power_of_two(whole)
    large = 1.0 - 2.0 / (power + 1.0)
    return small.where(a < BEND, large).copysign(x)


def sinh(x: Num) -> Num:
    """Hyperbolic sine, at most 2.5 ulp: (t + t/(t + 1))/2 with t = expm1(|x|), in halves."""
    a = x.abs()
    quarter = quarter_expm1(clamp(a, 0.0, OVERFLOW))
    half = quarter + quarter
    value = half + half / (quarter * 4.0 + 1.0)
    value = half.where(half.compare("oeq", float("inf")), value)
    return a.where(a < 2.0**-12, value).copysign(x)


def cosh(x: Num) -> Num:
    """Hyperbolic cosine, at most 2 ulp: 2t + 1/(8t) with t = exp(|x|)/4."""
    quarter = quarter_exp(clamp(x.abs(), 0.0, OVERFLOW))
    return x.at.fma(quarter, 2.0, 0.125 / quarter)


def asinh(x: Num) -> Num:
    """Inverse hyperbolic sine, at most 3 ulp: log1p(a + a*a/(1 + sqrt(a*a + 1))), log(2a) where the square overflows."""
    e = x.at
    a = x.abs()
    square = a * a
    near = log1p(a + square / (e.fma(a, a, 1.0).sqrt() + 1.0))
    far = log(a) + 0.6931471805599453
    return far.where(a > 2.0**40, near).copysign(x)


def acosh(x: Num) -> Num:
    """Inverse hyperbolic cosine, at most 3 ulp; NaN below 1: log1p(t + sqrt(2t + t*t)) with t = x - 1."""
    e = x.at
    t = x - 1.0
    near = log1p(t + e.fma(t, t, t + t).sqrt())
    far = log(x) + 0.6931471805599453
    return far.where(x > 2.0**40, near).where(x >= 1.0, float("nan"))


def atanh(x: Num) -> Num:
    """Inverse hyperbolic tangent, at most 3 ulp; NaN outside [-1, 1]: log1p(2a/(1 - a))/2."""
    a = x.abs()
    return (log1p((a + a) / (1.0 - a)) * 0.5).copysign(x)
