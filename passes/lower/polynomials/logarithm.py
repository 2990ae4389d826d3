"""Emits log, log2, log10 and log1p of f32 and f64."""

from torch_mlir import ir

from ...ir.emit import Num
from .exponential import DOUBLE, LN2, format_of, is_double

LOG2_E = {"f32": (1.4426950216293335, 1.925963033500011e-08), "f64": (1.4426950408889634, 2.0355273740931033e-17)}
"""In two parts, as the next two."""
LOG10_E = 0.4342944920063019, -1.0103049952192578e-08
LOG10_2 = 0.3010300099849701, -1.432098883924482e-08
LOG10_E_DOUBLE = 0.4342944819032518
SQRT_HALF = {"f32": 0x3F3504F3, "f64": 0x3FE6A09E667F3BCD}
"""The bits of sqrt(1/2), the lower end of the interval of 1 + f up to sqrt(2); so k and log2(1 + f) do not cancel."""
THREE_QUARTERS = {"f32": 0x3F400000, "f64": 0x3FE8000000000000}
"""The bits of 3/4. For log1p, 1 + f is between 3/4 and 3/2, so that f is exact wherever its error would matter."""
# log(1 + f) = f + f*f*q(f) for sqrt(1/2) <= 1 + f <= sqrt(2), relative error 2**-27.8
LOG = (-0.0760889277, 0.129012287, -0.132464141, 0.141823098, -0.166087151, 0.200019598, -0.250016004, 0.333333254, -0.499999881)
# the same for the f of log1p, relative error 2**-27.6
LOG1P = (-0.0451156497, 0.104693599, -0.131640568, 0.144783199, -0.166469872, 0.199908182, -0.250001043, 0.333334506, -0.5)
# log((1 + s)/(1 - s)) = 2*s + s*z*q(z) with z = s*s, for |s| <= 1/5, relative error 2**-55.9
LOG_DOUBLE = (
    0.15372817030378721, 0.15249602827504188, 0.18186384819747822, 0.22222137814644027, 0.2857142940348013, 0.39999999996117513,
    0.6666666666667279,
)  # fmt: skip


def log(x: Num) -> Num:
    """Natural logarithm, at most 1 ulp. x = 2**k * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2))."""
    return edges(x, _sum(*split(x), LOG))


def log2(x: Num) -> Num:
    """Logarithm to base 2, at most 1.5 ulp, of f64 2.5; exact for powers of two."""
    k, f = split(x)
    if not is_double(x):
        return edges(x, k + _scaled(f, *LOG2_E["f32"]))
    curve, (high, low) = _sum(k.like(0.0), f, LOG), LOG2_E["f64"]
    return edges(x, x.emitter.fma(curve, high, k) + curve * low)


def log10(x: Num) -> Num:
    """Logarithm to base 10, at most 1.5 ulp, of f64 2.5."""
    if is_double(x):
        return log(x) * LOG10_E_DOUBLE
    e = x.emitter
    k, f = split(x)
    return edges(x, e.fma(k, LOG10_2[0], e.fma(k, LOG10_2[1], _scaled(f, *LOG10_E))))


def log1p(x: Num) -> Num:
    """log(1 + x), at most 1.5 ulp. The exponent is that of 1 + x; f = x * 2**-k + (2**-k - 1) takes x itself, unrounded."""
    e, constants = x.emitter, format_of(x)
    u = x + 1.0
    exponent = (u.bits() - THREE_QUARTERS[str(x.element)]) & -(1 << constants.mantissa)
    down = (
        exponent.like((constants.bias + 2) << constants.mantissa) - exponent
    ).as_float()  # 4 * 2**-k, which stays normal for every k
    f = e.fma(x, down * 0.25, e.fma(down, 0.25, -1.0))
    k = _count(exponent) if is_double(x) else exponent.cast("arith.sitofp", x.element) * 2.0**-23
    value = edges(u, _sum(k, f, LOG1P))
    return value.where(value.is_nan(), value.copysign(x))  # log1p(-0) is -0


def split(x: Num) -> tuple[Num, Num]:
    """Returns k and f with x = 2**k * (1 + f), for positive finite x; denormals are scaled up first."""
    e, constants = x.emitter, format_of(x)
    up = 54 if is_double(x) else 23
    small = x < 2.0 ** (1 - constants.bias)
    normal = (x * 2.0**up).where(small, x)
    exponent = (normal.bits() - SQRT_HALF[str(x.element)]) & -(1 << constants.mantissa)
    f = (normal.bits() - exponent).as_float() - 1.0
    if is_double(x):
        return _count(exponent) - x.like(float(up)).where(small, 0.0), f
    return e.fma(exponent.cast("arith.sitofp", x.element), 2.0**-23, x.like(-float(up)).where(small, 0.0)), f


def _count(exponent: Num) -> Num:
    """Converts a multiple of 2**52 to a count, by way of 32 bits, from which every target converts vectors."""
    return (exponent >> 52).cast("arith.trunci", ir.IntegerType.get_signless(32)).cast("arith.sitofp", ir.F64Type.get())


def _sum(k: Num, f: Num, coefficients: tuple[float, ...]) -> Num:
    """k ln 2 + log(1 + f). Of f32 by `coefficients`; of f64 summed from the small parts up as in FreeBSD's e_log.c."""
    e = f.emitter
    if not is_double(f):
        return e.fma(k, LN2, e.fma(series(f, coefficients), f * f, f))
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    small = e.fma(s, e.fma(z, e.horner(z, LOG_DOUBLE), half_square), k * DOUBLE.ln2[1])
    return e.fma(k, DOUBLE.ln2[0], f - (half_square - small))


def series(f: Num, coefficients: tuple[float, ...]) -> Num:
    """q with log(1 + f) = f + f*f*q(f): even and odd powers separately, which halves the chain of dependent operations."""
    e = f.emitter
    square = f * f
    even, odd = e.horner(square, coefficients[0::2]), e.horner(square, coefficients[1::2])
    return e.fma(odd, f, even)


def _scaled(f: Num, high: float, low: float) -> Num:
    """log(1 + f) * (high + low)."""
    e = f.emitter
    curve = series(f, LOG) * (f * f)
    return e.fma(f, high, e.fma(curve, high, f * low))


def edges(x: Num, value: Num) -> Num:
    """Returns `value` where x is positive and finite. Infinity and NaN stay themselves, 0 gives -inf, less gives NaN."""
    value = x.where(x.compare("uge", float("inf")), value)
    outside = x.like(float("nan")).where(x < 0.0, float("-inf"))
    return outside.where(x <= 0.0, value)
