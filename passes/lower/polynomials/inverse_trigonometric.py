"""Inverse trigonometric functions of f32."""

from collections.abc import Callable

from ...ir.emit import Num

HALF_PI = 1.5707963705062866, -4.371138828673793e-08  # in two parts
PI = 3.1415927410125732, -8.742277657347586e-08
# atan(x) = x + x**3*q(x*x) for |x| <= 1, relative error 2**-28.5
ATAN = (
    -0.00179362716, 0.0109146331, -0.0311779026, 0.0579576567, -0.0840345472, 0.109521873, -0.142642424, 0.199985489,
    -0.333332986,
)  # fmt: skip
# asin(x) = x + x**3*q(x*x) for |x| <= 1/2, relative error 2**-31.7
ASIN = (0.0375487879, 0.0144166891, 0.0318132006, 0.0445163399, 0.0750050694, 0.166666597)


def atan(x: Num) -> Num:
    """Arc tangent, at most 2 ulp."""
    return arc(x, _atan, HALF_PI)


def atan2(y: Num, x: Num) -> Num:
    """The angle of (x, y), at most 3 ulp, with the usual values at zeros and infinities."""
    return angle(y, x, _atan, HALF_PI, PI)


def arc(x: Num, inner: Callable[[Num], Num], half_pi: tuple[float, float]) -> Num:
    """Arc tangent of any x by `inner`, that of [0, 1]: above, it is pi/2 - atan(1/x). half_pi: in two parts."""
    a = x.abs()
    outside = a > 1.0
    near = inner((1.0 / a).where(outside, a))
    return (half_pi[0] - (near - half_pi[1])).where(outside, near).copysign(x)


def angle(y: Num, x: Num, inner: Callable[[Num], Num], half_pi: tuple[float, float], pi: tuple[float, float]) -> Num:
    """The angle of (x, y) by `inner`, the arc tangent of [0, 1]. half_pi, pi: in two parts."""
    a, b = y.abs(), x.abs()
    steep = a > b
    quotient = b.where(steep, a) / a.where(steep, b)
    quotient = a.like(0.0).where(a.compare("oeq", 0.0) & b.compare("oeq", 0.0), quotient)
    infinite = a.like(float("inf"))
    quotient = a.like(1.0).where(a.compare("oeq", infinite) & b.compare("oeq", infinite), quotient)
    found = inner(quotient)
    found = (half_pi[0] - (found - half_pi[1])).where(steep, found)
    found = (pi[0] - (found - pi[1])).where(x.bits() < 0, found)
    found = (x + y).where(x.is_nan() | y.is_nan(), found)
    return found.where(found.is_nan(), found.copysign(y))


def asin(x: Num) -> Num:
    """Arc sine, at most 2.5 ulp; NaN outside [-1, 1]. Above 1/2 it is pi/2 - 2 asin(sqrt((1 - x)/2))."""
    a = x.abs()
    outside, near = _asin(a)
    far = HALF_PI[0] - (near + near - HALF_PI[1])
    return far.where(outside, near).copysign(x)


def acos(x: Num) -> Num:
    """Arc cosine, at most 2 ulp; NaN outside [-1, 1]."""
    outside, near = _asin(x.abs())
    signed = near.copysign(x)
    middle = HALF_PI[0] - (signed - HALF_PI[1])
    double = near + near
    far = (PI[0] - (double - PI[1])).where(x < 0.0, double)
    return far.where(outside, middle)


def _atan(x: Num) -> Num:
    """Arc tangent of x in [0, 1]."""
    e = x.at
    square = x * x
    return e.fma(e.horner(square, ATAN) * square, x, x)


def _asin(a: Num) -> tuple[Num, Num]:
    """Returns whether a > 1/2, and the arc sine of a, or there of sqrt((1 - a)/2)."""
    e = a.at
    outside = a > 0.5
    square = e.fma(a, -0.5, 0.5).where(outside, a * a)
    base = square.sqrt().where(outside, a)
    return outside, e.fma(e.horner(square, ASIN) * square, base, base)
