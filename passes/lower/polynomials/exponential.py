"""exp, exp2 and expm1 of f32, and the parts of exp that other functions use."""

from ...ir.emit import Num

LOG2_E = 1.4426950408889634
LN2_HI, LN2_LO = 0.6931471824645996, -1.9046542121259336e-09  # their sum is ln 2 to 49 bits
ROUND = 1.5 * 2.0**23  # adding it leaves the nearest integer in the low bits of the sum,
ROUND_BITS = 0x4B400000  # which then are these plus the integer
# exp(r) = 1 + r + r*r*q(r) for |r| <= ln(2)/2, relative error 2**-28.3
EXP = (0.00138144754, 0.00836878084, 0.0416683927, 0.166665196, 0.49999994)
# the same, relative error 2**-23.2: for results that are a small part of a sum
EXP_SHORT = (0.00831245538, 0.0418905467, 0.166671172, 0.499992281)
# 2**r = 1 + r*q(r) for |r| <= 1/2, relative error 2**-28.9
EXP2 = (0.000153533532, 0.00133988739, 0.00961843785, 0.0555033237, 0.240226477, 0.693147182)


def exp(x: Num) -> Num:
    """e**x, at most 1 ulp. 15 operations where the target has ldexp, else 21."""
    x = clamp(x, -104.0, 89.0)
    whole, r = reduce(x)
    return scale(tail(r, EXP), whole)


def exp2(x: Num) -> Num:
    """2**x, at most 1 ulp."""
    x = clamp(x, -151.0, 129.0)
    whole = x + ROUND
    r = x - (whole - ROUND)
    return scale(x.at.fma(x.at.horner(r, EXP2), r, 1.0), whole)


def expm1(x: Num) -> Num:
    """e**x - 1, at most 1.5 ulp: 2**n * (e**r - 1) + (2**n - 1), in halves so that 2**128 need not exist."""
    half = quarter_expm1(clamp(x, -18.0, 89.0), parts=1)
    # below 2**-25 the sum would lose the sign of zero and the last bit of a denormal
    return x.where(x.abs() < 2.0**-25, half + half)


def quarter_expm1(x: Num, parts: int = 2) -> Num:
    """(e**x - 1) / 2**parts for clamped x."""
    e = x.at
    whole, r = reduce(x)
    p = e.fma(e.horner(r, EXP), r * r, r)
    power = power_of_two(whole, -parts)
    return e.fma(p, power, power - 0.5**parts)


def quarter_exp(x: Num) -> Num:
    """e**x / 4 for clamped x that is not far below 0."""
    whole, r = reduce(x)
    return tail(r, EXP) * power_of_two(whole, -2)


def clamp(x: Num, low: float, high: float) -> Num:
    """Clamps x to [low, high], keeping NaN: with the constant first, x86's min and max return x when it is NaN."""
    x = x.like(high).where(x.like(high) < x, x)
    return x.like(low).where(x.like(low) > x, x)


def reduce(x: Num) -> tuple[Num, Num]:
    """Returns n + ROUND and r with x = n ln 2 + r, |r| <= ln(2)/2 (Cody-Waite in two parts, exact for |n| < 2**8)."""
    e = x.at
    whole = e.fma(x, LOG2_E, ROUND)
    n = whole - ROUND
    r = e.fma(n, -LN2_HI, x)
    return whole, e.fma(n, -LN2_LO, r)


def tail(r: Num, coefficients: tuple[float, ...]) -> Num:
    """e**r for reduced r."""
    e = r.at
    return e.fma(e.fma(e.horner(r, coefficients), r, 1.0), r, 1.0)


def short_exp(x: Num) -> Num:
    """e**x for -60 < x < 60, relative error below 2**-22: one part of ln 2 and the short polynomial."""
    e = x.at
    whole = e.fma(x, LOG2_E, ROUND)
    r = e.fma(whole - ROUND, -LN2_HI, x)
    return ((whole.bits() << 23) + tail(r, EXP_SHORT).bits()).as_float()


def power_of_two(whole: Num, shift: int = 0) -> Num:
    """2**(n + shift) for whole = n + ROUND, where that is a normal number: the sum's low bits are n, and move to the exponent."""
    return ((whole.bits() + (127 + shift)) << 23).as_float()


def scale(x: Num, whole: Num) -> Num:
    """x * 2**n for whole = n + ROUND, rounded once where the result is a denormal."""
    e = x.at
    count = whole.bits() - ROUND_BITS
    if e.ldexp and len(e.shape) == 1:
        return ldexp(x, count)
    # two factors, since 2**n alone need be no normal number; the first product is exact
    half = count >> 1
    return x * ((half + 127) << 23).as_float() * ((count - half + 127) << 23).as_float()


def ldexp(x: Num, count: Num) -> Num:
    """x * 2**count by LLVM's intrinsic; the LLVM dialect's own op for it takes no vectors."""
    return x.at.intrinsic("llvm.ldexp", x, count)
