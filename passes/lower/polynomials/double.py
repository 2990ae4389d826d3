"""exp, expm1, log, log1p and tanh of f64. A CPU calls the C library for the others, lane by lane: a model has few of them."""

from torch_mlir import ir

from ...ir.emit import Num
from .exponential import clamp, ldexp, tail
from .logarithm import edges

LOG2_E = 1.4426950408889634
LN2_HI, LN2_LO = 0.6931471803691238, 1.9082149292705877e-10  # the upper part has 32 bits, so that its multiples are exact
ROUND = 1.5 * 2.0**52
ROUND_BITS = 0x4338000000000000
SQRT_HALF, THREE_QUARTERS = 0x3FE6A09E667F3BCD, 0x3FE8000000000000  # as bits (see logarithm.py)
# exp(r) = 1 + r + r*r*q(r) for |r| <= ln(2)/2, relative error 2**-57.9
EXP = (
    2.4999960462135696e-08, 2.7630378904943013e-07, 2.7557587354280988e-06, 2.4801492762002333e-05, 0.00019841269504756358,
    0.0013888888943923378, 0.008333333333495625, 0.041666666666529184, 0.1666666666666641, 0.5000000000000011,
)  # fmt: skip
# log((1 + s)/(1 - s)) = 2*s + s*z*q(z) with z = s*s, for |s| <= 1/5, relative error 2**-55.9
LOG = (
    0.15372817030378721, 0.15249602827504188, 0.18186384819747822, 0.22222137814644027, 0.2857142940348013, 0.39999999996117513,
    0.6666666666667279,
)  # fmt: skip


def exp(x: Num) -> Num:
    """e**x, at most 1 ulp."""
    x = clamp(x, -746.0, 710.0)
    whole, r = reduce(x)
    return scale(tail(r, EXP), whole)


def expm1(x: Num) -> Num:
    """e**x - 1, at most 2 ulp."""
    e = x.at
    bounded = clamp(x, -40.0, 710.0)
    whole, r = reduce(bounded)
    half = _power_of_two((whole.bits() - ROUND_BITS).cast("arith.trunci", ir.IntegerType.get_signless(32)) - 1)
    value = e.fma(e.horner(r, EXP) * (r * r), half, e.fma(r, half, half - 0.5))
    return x.where(x.abs() < 2.0**-54, value + value)


def log(x: Num) -> Num:
    """Natural logarithm, at most 1 ulp."""
    return edges(x, series(*split(x)))


def log1p(x: Num) -> Num:
    """log(1 + x), at most 1.5 ulp (see logarithm.log1p)."""
    e = x.at
    u = x + 1.0
    exponent = (u.bits() - THREE_QUARTERS) & -(1 << 52)
    down = (e.constant(0x4010000000000000, exponent.element) - exponent).as_float()
    f = e.fma(x, down * 0.25, e.fma(down, 0.25, -1.0))
    value = edges(u, series(_exponent(exponent), f))
    return value.where(value.is_nan(), value.copysign(x))


def tanh(x: Num) -> Num:
    """Hyperbolic tangent, at most 3 ulp: t/(t + 2) with t = expm1(2|x|)."""
    a = x.abs()
    t = expm1((a + a).like(50.0).where((a + a) > 50.0, a + a))
    return (t / (t + 2.0)).copysign(x)


def reduce(x: Num) -> tuple[Num, Num]:
    """Returns n + ROUND and r with x = n ln 2 + r."""
    e = x.at
    whole = e.fma(x, LOG2_E, ROUND)
    n = whole - ROUND
    return whole, e.fma(n, -LN2_LO, e.fma(n, -LN2_HI, x))


def scale(x: Num, whole: Num) -> Num:
    """x * 2**n for whole = n + ROUND, rounded once where the result is a denormal (see exponential.scale)."""
    e = x.at
    count = (whole.bits() - ROUND_BITS).cast("arith.trunci", ir.IntegerType.get_signless(32))
    if e.ldexp and len(e.shape) == 1:
        return ldexp(x, count)
    half = count >> 1
    return x * _power_of_two(half) * _power_of_two(count - half)


def split(x: Num) -> tuple[Num, Num]:
    """Returns k and f with x = 2**k * (1 + f), 1 + f in [sqrt(1/2), sqrt(2)), for positive finite x (see logarithm.split)."""
    small = x < 2.0**-1022
    normal = (x * 2.0**54).where(small, x)
    exponent = (normal.bits() - SQRT_HALF) & -(1 << 52)
    f = (normal.bits() - exponent).as_float() - 1.0
    return _exponent(exponent) - x.at.constant(54.0, x.element).where(small, 0.0), f


def _power_of_two(count: Num) -> Num:
    wide = count.cast("arith.extsi", ir.IntegerType.get_signless(64))
    return ((wide + 1023) << 52).as_float()


def _exponent(bits: Num) -> Num:
    """Converts a multiple of 2**52 to a count, by way of 32 bits, from which every target converts vectors."""
    return (bits >> 52).cast("arith.trunci", ir.IntegerType.get_signless(32)).cast("arith.sitofp", ir.F64Type.get())


def series(k: Num, f: Num) -> Num:
    """k ln 2 + log(1 + f), summed from the small parts up as in FreeBSD's e_log.c."""
    e = f.at
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    small = e.fma(s, e.fma(z, e.horner(z, LOG), half_square), k * LN2_LO)
    return e.fma(k, LN2_HI, f - (half_square - small))
