"""Emits the inverse trigonometric functions of f32 and f64."""

from ...ir.emit import Num
from .exponential import is_double

HALF_PI = {"f32": (1.5707963705062866, -4.371138828673793e-08), "f64": (1.5707963267948966, 6.123233995736766e-17)}
"""In two parts, as the next two."""
PI = {"f32": (3.1415927410125732, -8.742277657347586e-08), "f64": (3.141592653589793, 1.2246467991473532e-16)}
QUARTER_PI_DOUBLE = 0.7853981633974483, 3.061616997868383e-17
BEND_DOUBLE = 0.41421356237309503  # tan(pi/8)
# atan(x) = x + x**3*q(x*x) for |x| <= 1, relative error 2**-28.5
ATAN = (
    -0.00179362716, 0.0109146331, -0.0311779026, 0.0579576567, -0.0840345472, 0.109521873, -0.142642424, 0.199985489,
    -0.333332986,
)  # fmt: skip
# the same for |x| <= tan(pi/8), error of q 2**-59.6
ATAN_DOUBLE = (
    0.016279546458951567, -0.03456495684189155, 0.04551375225747564, -0.0523040647016232, 0.058789225062371914,
    -0.06666424321026253, 0.07692296343583897, -0.09090908752412959, 0.1111111110513358, -0.14285714285659604,
    0.19999999999999804, -0.3333333333333333,
)  # fmt: skip
# asin(x) = x + x**3*q(x*x) for |x| <= 1/2, relative error 2**-31.7
ASIN = (0.0375487879, 0.0144166891, 0.0318132006, 0.0445163399, 0.0750050694, 0.166666597)


def atan(x: Num) -> Num:
    """Arc tangent, at most 2 ulp, of f64 2.5: above 1 it is pi/2 - atan(1/x)."""
    high, low = HALF_PI[str(x.element)]
    a = x.abs()
    outside = a > 1.0
    near = _atan((1.0 / a).where(outside, a))
    return (high - (near - low)).where(outside, near).copysign(x)


def atan2(y: Num, x: Num) -> Num:
    """The angle of (x, y), at most 3 ulp, of f64 3.5, with the usual values at zeros and infinities."""
    half_pi, pi = HALF_PI[str(x.element)], PI[str(x.element)]
    a, b = y.abs(), x.abs()
    steep = a > b
    quotient = b.where(steep, a) / a.where(steep, b)
    quotient = a.like(0.0).where(a.compare("oeq", 0.0) & b.compare("oeq", 0.0), quotient)
    infinite = a.like(float("inf"))
    quotient = a.like(1.0).where(a.compare("oeq", infinite) & b.compare("oeq", infinite), quotient)
    angle = _atan(quotient)
    angle = (half_pi[0] - (angle - half_pi[1])).where(steep, angle)
    angle = (pi[0] - (angle - pi[1])).where(x.bits() < 0, angle)
    angle = (x + y).where(x.is_nan() | y.is_nan(), angle)
    return angle.where(angle.is_nan(), angle.copysign(y))


def asin(x: Num) -> Num:
    """Arc sine, at most 2.5 ulp, of f64 4; NaN outside [-1, 1]. Above 1/2 it is pi/2 - 2 asin(sqrt((1 - x)/2))."""
    if is_double(x):
        return atan2(x, _leg(x))
    a, half_pi = x.abs(), HALF_PI["f32"]
    outside, near = _asin(a)
    far = half_pi[0] - (near + near - half_pi[1])
    return far.where(outside, near).copysign(x)


def acos(x: Num) -> Num:
    """Arc cosine, at most 2 ulp, of f64 4; NaN outside [-1, 1]."""
    if is_double(x):
        return atan2(_leg(x), x)
    half_pi, pi = HALF_PI["f32"], PI["f32"]
    outside, near = _asin(x.abs())
    signed = near.copysign(x)
    middle = half_pi[0] - (signed - half_pi[1])
    twice = near + near
    far = (pi[0] - (twice - pi[1])).where(x < 0.0, twice)
    return far.where(outside, middle)


def _atan(x: Num) -> Num:
    """Arc tangent of x in [0, 1]."""
    e = x.emitter
    if is_double(x):
        outer = x > BEND_DOUBLE
        t = ((x - 1.0) / (x + 1.0)).where(outer, x)
        square = t * t
        curve = e.horner(square, ATAN_DOUBLE) * square
        low = x.like(QUARTER_PI_DOUBLE[1]).where(outer, 0.0)
        return (e.fma(curve, t, low) + t + QUARTER_PI_DOUBLE[0]).where(outer, e.fma(curve, t, t))
    square = x * x
    return e.fma(e.horner(square, ATAN) * square, x, x)


def _leg(x: Num) -> Num:
    """sqrt(1 - x*x)."""
    return ((1.0 - x) * (x + 1.0)).sqrt()


def _asin(a: Num) -> tuple[Num, Num]:
    """Returns whether a > 1/2, and the arc sine of a, or there of sqrt((1 - a)/2)."""
    e = a.emitter
    outside = a > 0.5
    square = e.fma(a, -0.5, 0.5).where(outside, a * a)
    base = square.sqrt().where(outside, a)
    return outside, e.fma(e.horner(square, ASIN) * square, base, base)
