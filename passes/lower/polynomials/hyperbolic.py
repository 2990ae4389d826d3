"""Emits hyperbolic functions and their inverses, of f32 and f64."""

from ...ir.emit import Num
from .exponential import LN2, SINGLE, clamp, exp, expm1, is_double, power_of_two, quarter_exp, quarter_expm1, reduce, tail
from .logarithm import log, log1p

# tanh(x) = x + x**3*q(x*x) for |x| < BEND, relative error 2**-28.4
TANH = (-0.00589796621, 0.0207986254, -0.0537847169, 0.133319363, -0.333332986)
BEND = 0.6
OVERFLOW = 89.5  # sinh and cosh of f32 are infinite above 89.416
FAR = 2.0**40  # above it 1 makes no difference to a square
OVERFLOW_EXP = 709.0  # above it e**a of f64 overflows before e**a / 2 does


def tanh(x: Num) -> Num:
    """Hyperbolic tangent, at most 1.5 ulp: an odd polynomial below BEND, 1 - 2/(exp(2|x|) + 1) above; 1 from 9.02 on. Of f64 at
    most 3 ulp: t/(t + 2) with t = expm1(2|x|)."""
    e = x.emitter
    a = x.abs()
    if is_double(x):
        t = expm1((a + a).like(50.0).where((a + a) > 50.0, a + a))
        return (t / (t + 2.0)).copysign(x)
    square = x * x
    small = e.fma(e.horner(square, TANH) * square, x, x)
    double = a + a
    double = x.like(20.0).where(x.like(20.0) < double, double)
    whole, r = reduce(double)
    power = tail(r, SINGLE.exp) * power_of_two(whole)
    large = 1.0 - 2.0 / (power + 1.0)
    return small.where(a < BEND, large).copysign(x)


def sinh(x: Num) -> Num:
    """Hyperbolic sine, at most 2.5 ulp, of f64 4: (t + t/(t + 1))/2 with t = expm1(|x|), in halves."""
    a = x.abs()
    if is_double(x):
        t = expm1(a)
        return _half_exp(a).where(a > OVERFLOW_EXP, (t + t / (t + 1.0)) * 0.5).copysign(x)
    quarter = quarter_expm1(clamp(a, 0.0, OVERFLOW))
    half = quarter + quarter
    value = half + half / (quarter * 4.0 + 1.0)
    value = half.where(half.compare("oeq", float("inf")), value)
    return a.where(a < 2.0**-12, value).copysign(x)


def cosh(x: Num) -> Num:
    """Hyperbolic cosine, at most 2 ulp, of f64 3: 2t + 1/(8t) with t = exp(|x|)/4."""
    if is_double(x):
        a = x.abs()
        t = exp(a)
        return _half_exp(a).where(a > OVERFLOW_EXP, x.emitter.fma(t, 0.5, 0.5 / t))
    quarter = quarter_exp(clamp(x.abs(), 0.0, OVERFLOW))
    return x.emitter.fma(quarter, 2.0, 0.125 / quarter)


def asinh(x: Num) -> Num:
    """Inverse hyperbolic sine, at most 3 ulp, of f64 4: log1p(a + a*a/(1 + sqrt(a*a + 1))), log(2a) where the square overflows."""
    e = x.emitter
    a = x.abs()
    square = a * a
    near = log1p(a + square / (e.fma(a, a, 1.0).sqrt() + 1.0))
    far = log(a) + LN2
    return far.where(a > FAR, near).copysign(x)


def acosh(x: Num) -> Num:
    """Inverse hyperbolic cosine, at most 3 ulp, of f64 4; NaN below 1: log1p(t + sqrt(2t + t*t)) with t = x - 1."""
    e = x.emitter
    t = x - 1.0
    near = log1p(t + e.fma(t, t, t + t).sqrt())
    far = log(x) + LN2
    return far.where(x > FAR, near).where(x >= 1.0, float("nan"))


def atanh(x: Num) -> Num:
    """Inverse hyperbolic tangent, at most 3 ulp, of f64 4; NaN outside [-1, 1]: log1p(2a/(1 - a))/2."""
    a = x.abs()
    return (log1p((a + a) / (1.0 - a)) * 0.5).copysign(x)


def _half_exp(a: Num) -> Num:
    """e**a / 2 where e**a may overflow."""
    half = exp(a * 0.5)
    return half * 0.5 * half
