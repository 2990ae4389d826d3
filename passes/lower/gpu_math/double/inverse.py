"""Inverse trigonometric functions of f64."""

from ....ir.emit import Num
from ...polynomials.inverse_trigonometric import angle, arc

HALF_PI = 1.5707963267948966, 6.123233995736766e-17  # in two parts
QUARTER_PI = 0.7853981633974483, 3.061616997868383e-17
PI = 3.141592653589793, 1.2246467991473532e-16
BEND = 0.41421356237309503  # tan(pi/8)
# atan(x) = x + x**3*q(x*x) for |x| <= tan(pi/8), error of q 2**-59.6
ATAN = (
    0.016279546458951567, -0.03456495684189155, 0.04551375225747564, -0.0523040647016232, 0.058789225062371914,
    -0.06666424321026253, 0.07692296343583897, -0.09090908752412959, 0.1111111110513358, -0.14285714285659604,
    0.19999999999999804, -0.3333333333333333,
)  # fmt: skip


def atan(x: Num) -> Num:
    """Arc tangent, at most 2.5 ulp."""
    return arc(x, _atan, HALF_PI)


def atan2(y: Num, x: Num) -> Num:
    """The angle of (x, y), at most 3.5 ulp, with the usual values at zeros and infinities."""
    return angle(y, x, _atan, HALF_PI, PI)


def asin(x: Num) -> Num:
    """Arc sine, at most 4 ulp; NaN outside [-1, 1]."""
    return atan2(x, _leg(x))


def acos(x: Num) -> Num:
    """Arc cosine, at most 4 ulp; NaN outside [-1, 1]."""
    return atan2(_leg(x), x)


def _leg(x: Num) -> Num:
    """sqrt(1 - x*x)."""
    return ((1.0 - x) * (x + 1.0)).sqrt()


def _atan(x: Num) -> Num:
    """Arc tangent of x in [0, 1]."""
    e = x.at
    outer = x > BEND
    t = ((x - 1.0) / (x + 1.0)).where(outer, x)
    square = t * t
    curve = e.horner(square, ATAN) * square
    low = x.like(QUARTER_PI[1]).where(outer, 0.0)
    return (e.fma(curve, t, low) + t + QUARTER_PI[0]).where(outer, e.fma(curve, t, t))
