"""Emits powf, fpowi and rsqrt of f32 and f64."""

import operator
from collections.abc import Callable

from torch_mlir import ir

from ...ir.emit import Num
from .exponential import DOUBLE, clamp, exp_of_sum, is_double, power_of_two
from .logarithm import LOG_DOUBLE, split

# log2((1 + s)/(1 - s)) = s*q(s*s) for |s| <= 1/5, relative error 2**-42.4
LOG2 = (0.29082448459387383, 0.319285747103062, 0.41222614672244395, 0.5770777560275221, 0.9617966948226141, 2.8853900817774294)
# 2**r for |r| <= 1/2, relative error 2**-34.5
EXP2 = (
    1.5201936617021e-05, 0.00015469291967717266, 0.0013333922487653383, 0.009618027250537103, 0.05550410353575055,
    0.24022651198186645, 0.6931471807283714, 0.9999999999616798,
)  # fmt: skip


def rsqrt(x: Num) -> Num:
    """1/sqrt(x) of f32, at most 1.5 ulp."""
    return 1.0 / x.sqrt()


def powf(x: Num, y: Num, quotient: Callable[[Num, Num], Num] = operator.truediv) -> Num:
    """x**y, at most 1 ulp: 2**(y * log2|x|) in f64, where every f32 is normal and the product loses nothing that counts.
    Signs and special values are those of C's pow. `quotient` divides f64 values by ones near 2, to 2**-40 or better.

    Of f64 it is e**(y log|x|) with a logarithm of 55 bits in two parts: at most 1.5 ulp and a quarter for each unit of |y log x|,
    which is up to 745.
    """
    a = x.abs()
    if is_double(x):
        e, (high, low) = x.emitter, _log(a)
        product = y * high
        rest = e.fma(y, high, -product) + y * low
        rest = rest.where(product.abs() < 800.0, 0.0)  # beyond, the result is 0 or infinite, and the rest large or NaN
        return _with_special_values(x, a, y, exp_of_sum(product, rest))
    power = y.cast("arith.extf", ir.F64Type.get()) * _log2(a.cast("arith.extf", ir.F64Type.get()), quotient)
    value = _exp2(power).cast("arith.truncf", ir.F32Type.get())
    return _with_special_values(x, a, y, value)


def fpowi(x: Num, n: Num) -> Num:
    """x**n with an integer n, as powf of the rounded n."""
    return powf(x, n.cast("arith.sitofp", x.element))


def _with_special_values(x: Num, a: Num, y: Num, value: Num) -> Num:
    """Returns x**y from a**y with a = |x|: with its sign, and with the special values of C's pow."""
    one = x.like(1.0)
    value = one.where(a.compare("oeq", 1.0) & y.compare("ord", y), value)  # 0 * infinity above
    whole = _truncated(y).compare("oeq", y)
    half = y * 0.5
    odd = whole & _truncated(half).compare("one", half)
    negative = x.bits() < 0
    value = (-value).where(negative & odd, value)
    value = x.like(float("nan")).where((x < 0.0) & x.compare("one", float("-inf")) & (whole ^ 1), value)
    value = (x + y).where(x.is_nan() | y.is_nan(), value)
    return one.where(x.compare("oeq", 1.0) | y.compare("oeq", 0.0), value)


def _truncated(x: Num) -> Num:
    return x.emitter.make("math.trunc", x.value.type, x)


def _log2(x: Num, quotient: Callable[[Num, Num], Num]) -> Num:
    """log2 of a non-negative f64 that is not a denormal; 0 and infinity give -inf and inf."""
    e = x.emitter
    exponent = (x.bits() - 0x3FE5555555555555) & -(1 << 52)
    m = (x.bits() - exponent).as_float()
    s = quotient(m - 1.0, m + 1.0)
    # the exponent is a small integer in the upper half: it converts by way of 32 bits, for which every target has vectors
    count = exponent.shr(52).cast("arith.trunci", ir.IntegerType.get_signless(32))
    k = ((count << 20) >> 20).cast("arith.sitofp", x.element)
    value = e.fma(e.horner(s * s, LOG2), s, k)
    value = x.like(float("-inf")).where(x.compare("oeq", 0.0), value)
    return x.where(x.compare("oeq", float("inf")), value)


def _exp2(x: Num) -> Num:
    """2**x of any f64, for a result that is then rounded to f32."""
    e = x.emitter
    x = clamp(x, -200.0, 200.0)
    whole = x + DOUBLE.round
    r = x - (whole - DOUBLE.round)
    return e.horner(r, EXP2) * power_of_two(whole)


def _log(x: Num) -> tuple[Num, Num]:
    """Logarithm of a non-negative f64 as a sum of two values; that of 0 and infinity is in the first one. It is k ln 2 + 2s + s**3
    q(s*s) with s = f/(2 + f)."""
    e = x.emitter
    k, f = split(x)
    bottom = f + 2.0
    s = f / bottom
    lost = f - (bottom - 2.0)
    s_low = e.fma(-s, lost, e.fma(-s, bottom, f)) / bottom
    z = s * s
    base, twice = k * DOUBLE.ln2[0], s + s
    high = base + twice
    low = (twice - (high - base)) + e.fma(k, DOUBLE.ln2[1], e.fma(s * z, e.horner(z, LOG_DOUBLE), s_low + s_low))
    high, low = high + low, low - ((high + low) - high)
    high = x.where(x.compare("uge", float("inf")), high)
    return high.like(float("-inf")).where(x.compare("oeq", 0.0), high), low
