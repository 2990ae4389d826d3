"""log, log2, log10 and log1p of f32."""

from ...ir.emit import Num

LN2 = 0.6931471805599453
LOG2_E = 1.4426950216293335, 1.925963033500011e-08  # in two parts
LOG10_E = 0.4342944920063019, -1.0103049952192578e-08
LOG10_2 = 0.3010300099849701, -1.432098883924482e-08
SQRT_HALF = 0x3F3504F3  # as bits; 1 + f is between it and sqrt(2), so that k and log2(1 + f) do not cancel
# log(1 + f) = f + f*f*q(f) for sqrt(1/2) <= 1 + f <= sqrt(2), relative error 2**-27.8
LOG = (
    -0.0760889277, 0.129012287, -0.132464141, 0.141823098, -0.166087151, 0.200019598, -0.250016004, 0.333333254, -0.499999881,
)  # fmt: skip
THREE_QUARTERS = 0x3F400000  # for log1p 1 + f is between 3/4 and 3/2: f is exact wherever its error would count
# the same for these f, relative error 2**-27.6
LOG1P = (
    -0.0451156497, 0.104693599, -0.131640568, 0.144783199, -0.166469872, 0.199908182, -0.250001043, 0.333334506, -0.5,
)  # fmt: skip


def log(x: Num) -> Num:
    """Natural logarithm, at most 1 ulp. x = 2**k * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2))."""
    e = x.at
    k, f = split(x)
    return edges(x, e.fma(k, LN2, e.fma(series(f, LOG), f * f, f)))


def log2(x: Num) -> Num:
    """Logarithm to base 2, at most 1.5 ulp; exact for powers of two."""
    k, f = split(x)
    return edges(x, k + _scaled(f, *LOG2_E))


def log10(x: Num) -> Num:
    """Logarithm to base 10, at most 1.5 ulp."""
    e = x.at
    k, f = split(x)
    return edges(x, e.fma(k, LOG10_2[0], e.fma(k, LOG10_2[1], _scaled(f, *LOG10_E))))


def log1p(x: Num) -> Num:
    """log(1 + x), at most 1.5 ulp. The exponent is that of 1 + x; f = x * 2**-k + (2**-k - 1) takes x itself, unrounded."""
    e = x.at
    u = x + 1.0
    exponent = (u.bits() - THREE_QUARTERS) & -0x800000
    down = (e.i32(0x40800000) - exponent).as_float()  # 4 * 2**-k, which stays normal for every k
    f = e.fma(x, down * 0.25, e.fma(down, 0.25, -1.0))
    k = exponent.cast("arith.sitofp", x.element) * 2.0**-23
    value = edges(u, e.fma(k, LN2, e.fma(series(f, LOG1P), f * f, f)))
    return value.where(value.is_nan(), value.copysign(x))  # log1p(-0) is -0


def split(x: Num) -> tuple[Num, Num]:
    """Returns k and f with x = 2**k * (1 + f), for positive finite x; denormals are scaled up first."""
    e = x.at
    small = x < 2.0**-126
    normal = (x * 2.0**23).where(small, x)
    exponent = (normal.bits() - SQRT_HALF) & -0x800000
    f = (normal.bits() - exponent).as_float() - 1.0
    k = e.fma(exponent.cast("arith.sitofp", x.element), 2.0**-23, e.f32(-23.0).where(small, 0.0))
    return k, f


def series(f: Num, coefficients: tuple[float, ...]) -> Num:
    """q with log(1 + f) = f + f*f*q(f): even and odd powers apart, which halves the chain of dependent operations."""
    e = f.at
    square = f * f
    even, odd = e.horner(square, coefficients[0::2]), e.horner(square, coefficients[1::2])
    return e.fma(odd, f, even)


def _scaled(f: Num, high: float, low: float) -> Num:
    """log(1 + f) * (high + low)."""
    e = f.at
    curve = series(f, LOG) * (f * f)
    return e.fma(f, high, e.fma(curve, high, f * low))


def edges(x: Num, value: Num) -> Num:
    """Returns `value` where x is positive and finite. Infinity and NaN stay themselves, 0 gives -inf, less gives NaN."""
    value = x.where(x.compare("uge", float("inf")), value)
    outside = x.like(float("nan")).where(x < 0.0, float("-inf"))
    return outside.where(x <= 0.0, value)
