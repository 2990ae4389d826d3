"""Inverse trigonometric functions."""

from ..emit import Num

HALF_PI, PI = 1.5707963705062866, 3.1415927410125732
HALF_PI_LO, PI_LO = -4.371138828673793e-08, -8.742277657347586e-08
# atan(x) = x + x**3*q(x*x) for |x| <= 1, relative error 2**-28.5
ATAN = (
    -0.00179362716, 0.0109146331, -0.0311779026, 0.0579576567, -0.0840345472, 0.109521873, -0.142642424, 0.199985489,
    -0.333332986,
)  # fmt: skip
# asin(x) = x + x**3*q(x*x) for |x| <= 1/2, relative error 2**-31.7
ASIN = (0.0375487879, 0.0144166891, 0.0318132006, 0.0445163399, 0.0750050694, 0.166666597)


def atan(x: Num) -> Num:
    """Arc tangent, at most 2 ulp; pi/2 - atan(1/x) above 1."""
    a = x.abs()
    outside = a > 1.0
    near = _atan((1.0 / a).where(outside, a))
    return (HALF_PI - (near - HALF_PI_LO)).where(outside, near).copysign(x)


def atan2(y: Num, x: Num) -> Num:
    """The angle of (x, y), at most 3 ulp, with the usual values at zeros and infinities."""
    a, b = y.abs(), x.abs()
    steep = a > b
    quotient = b.where(steep, a) / a.where(steep, b)
    quotient = a.like(0.0).where(a.compare("oeq", 0.0) & b.compare("oeq", 0.0), quotient)
    infinite = a.like(float("inf"))
    quotient = a.like(1.0).where(a.compare("oeq", infinite) & b.compare("oeq", infinite), quotient)
    angle = _atan(quotient)
    angle = (HALF_PI - (angle - HALF_PI_LO)).where(steep, angle)
    angle = (PI - (angle - PI_LO)).where(x.bits() < 0, angle)
    angle = (x + y).where((x + y).is_nan() & (x.is_nan() | y.is_nan()), angle)
    return angle.where(angle.is_nan(), angle.copysign(y))


def asin(x: Num) -> Num:
    """Arc sine, at most 2.5 ulp; NaN outside [-1, 1]. Above 1/2 it is pi/2 - 2 asin(sqrt((1 - x)/2))."""
    a = x.abs()
    outside, near = _asin(a)
    far = HALF_PI - (near + near - HALF_PI_LO)
    return far.where(outside, near).copysign(x)


def acos(x: Num) -> Num:
    """Arc cosine, at most 2 ulp; NaN outside [-1, 1]."""
    outside, near = _asin(x.abs())
    signed = near.copysign(x)
    middle = HALF_PI - (signed - HALF_PI_LO)
    double = near + near
    far = (PI - (double - PI_LO)).where(x < 0.0, double)
    return far.where(outside, middle)


def _atan(x: Num) -> Num:
    """For x in [0, 1]."""
    e = x.at
    square = x * x
    return e.fma(e.horner(square, ATAN) * square, x, x)


def _asin(a: Num) -> tuple[Num, Num]:
    """Whether a > 1/2, and asin of a, or of sqrt((1 - a)/2) there."""
    e = a.at
    outside = a > 0.5
    square = e.fma(a, -0.5, 0.5).where(outside, a * a)
    base = square.sqrt().where(outside, a)
    return outside, e.fma(e.horner(square, ASIN) * square, base, base)
