"""Emits the error function of f32 and f64."""

from ...ir.emit import Num
from .exponential import exp, is_double, short_exp

# erf(x) = x + x*q(x*x) for |x| < 0.92, relative error 2**-26
SMALL = (-0.000599940482, 0.00499483012, -0.0267677195, 0.112818457, -0.376124978, 0.128379151)
# 1 - erf(x) = exp(-x*q(x)) for 0.92 <= x <= 4.05, error of erf 2**-30.3
LARGE = (1.12315702e-05, -0.000322806212, 0.00364246755, -0.023762079, 0.106236897, 0.635151327, 1.12864852)
# erf(x) = x + x*q(x*x) for |x| <= 1, error of q 2**-62.7
SMALL_DOUBLE = (
    5.957176147748911e-11, -1.1372848856791674e-09, 1.4659775274047436e-08, -1.6350312701054695e-07, 1.6461000484121368e-06,
    -1.4925595266831182e-05, 0.0001205533111164271, -0.000854832698083379, 0.0052239776248180145, -0.026866170645076792,
    0.11283791670954879, -0.3761263890318375, 0.1283791670955126,
)  # fmt: skip
# (1 - erf(a)) * exp(a*a) = q((a - 2.5)/(a + 2.5)) for 1 <= a <= 6, error 2**-66.7
LARGE_DOUBLE = (
    -5.268754358611536e-08, 6.023739069612537e-08, 3.852788842266889e-07, 8.437733695417705e-08, -1.8153747236957426e-06,
    -2.300044945205947e-06, 7.554944060575972e-06, 1.8614755740620222e-05, -3.4182479158407944e-05, -0.00012887719743195293,
    0.00022838039345391708, 0.0008759154514255455, -0.0026423659647912615, -0.003993701165892015, 0.03992253907559317,
    -0.12503305237882892, 0.2517131932174492, -0.37173673394897333, 0.2108063640611436,
)  # fmt: skip


def erf(x: Num) -> Num:
    """The error function, at most 1.5 ulp, of f64 2. Above 4, of f64 above 6, it rounds to 1."""
    e = x.emitter
    a = x.abs()
    if is_double(x):
        a = a.like(6.0).where(a > 6.0, a)
        large = 1.0 - exp(-(a * a)) * e.horner((a - 2.5) / (a + 2.5), LARGE_DOUBLE)
        small = e.fma(e.horner(a * a, SMALL_DOUBLE), a, a)
        return large.where(a > 1.0, small).copysign(x)
    a = x.like(4.05).where(x.like(4.05) < a, a)
    large = 1.0 - short_exp(-(e.horner(a, LARGE) * a))
    small = e.fma(e.horner(a * a, SMALL), a, a)
    return small.where(a.compare("ult", 0.92), large).copysign(x)
