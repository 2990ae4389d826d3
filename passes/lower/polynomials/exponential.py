"""Emits exp, exp2 and expm1 of f32 and f64, and the steps of exp that other functions share.

All reduce the argument, x = n ln 2 + r, evaluate a polynomial in r, and scale by 2**n (Cody and Waite). n is found by adding 1.5 *
2**mantissa, which leaves it in the low bits of the sum: a value `whole` below is that sum.
"""

from dataclasses import dataclass

from torch_mlir import ir

from ...ir.emit import Num

LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
# exp(r) = 1 + r + r*r*q(r) for |r| <= ln(2)/2, relative error 2**-23.2: for results that are a small part of a sum
EXP_SHORT = (0.00831245538, 0.0418905467, 0.166671172, 0.499992281)
# 2**r = 1 + r*q(r) for |r| <= 1/2, relative error 2**-28.9
EXP2 = (0.000153533532, 0.00133988739, 0.00961843785, 0.0555033237, 0.240226477, 0.693147182)


@dataclass(frozen=True)
class FloatFormat:
    """The constants of f32 or f64 that the formulas use.

    mantissa    the number of bits of the mantissa, below those of the exponent
    bias        the bias of the exponent
    ln2         ln 2 as a sum of two numbers
    exp         the coefficients of the polynomial q in exp(r) = 1 + r + r*r*q(r), |r| <= ln(2)/2, the highest power first
    range       below its first number exp is 0, above its second infinite
    range_exp2  the same for 2**x
    expm1_min   below this, exp(x) - 1 rounds to -1
    """

    mantissa: int
    bias: int
    ln2: tuple[float, float]
    exp: tuple[float, ...]
    range: tuple[float, float]
    range_exp2: tuple[float, float]
    expm1_min: float

    @property
    def round(self) -> float:
        """The number that rounds: added to x, it leaves the integer nearest to x in the low bits of the sum."""
        return 1.5 * 2.0**self.mantissa

    @property
    def round_bits(self) -> int:
        """The bits of `round` as an integer. Those of the sum are this plus the nearest integer."""
        return ((self.bias + self.mantissa) << self.mantissa) + (1 << (self.mantissa - 1))


SINGLE = FloatFormat(
    23, 127, (0.6931471824645996, -1.9046542121259336e-09),  # their sum is ln 2 to 49 bits
    (0.00138144754, 0.00836878084, 0.0416683927, 0.166665196, 0.49999994),  # relative error of exp 2**-28.3
    (-104.0, 89.0), (-151.0, 129.0), -18.0,
)  # fmt: skip
DOUBLE = FloatFormat(
    52, 1023, (0.6931471803691238, 1.9082149292705877e-10),  # the upper part has 32 bits, so that its multiples are exact
    (
        2.4999960462135696e-08, 2.7630378904943013e-07, 2.7557587354280988e-06, 2.4801492762002333e-05, 0.00019841269504756358,
        0.0013888888943923378, 0.008333333333495625, 0.041666666666529184, 0.1666666666666641, 0.5000000000000011,
    ),  # relative error of exp 2**-57.9
    (-746.0, 710.0), (-1080.0, 1030.0), -40.0,
)  # fmt: skip


def is_double(x: Num) -> bool:
    """Returns whether x is f64, as opposed to f32."""
    return isinstance(x.element, ir.F64Type)


def format_of(x: Num) -> FloatFormat:
    """Returns the constants for the type of x."""
    return DOUBLE if is_double(x) else SINGLE


def exp(x: Num) -> Num:
    """Emits e**x, with an error of at most 1 ulp. f32 takes 16 operations on targets that have ldexp, else 22."""
    constants = format_of(x)
    vanishes, x = _within(x, *constants.range)
    whole, r = reduce(x)
    return x.like(0.0).where(vanishes, scale(tail(r, constants.exp), whole))


def exp2(x: Num) -> Num:
    """Emits 2**x, with an error of at most 1 ulp; 1.5 ulp for f64."""
    constants = format_of(x)
    vanishes, x = _within(x, *constants.range_exp2)
    whole = x + constants.round
    r = x - (whole - constants.round)
    power = tail(r * LN2, constants.exp) if is_double(x) else x.emitter.fma(x.emitter.horner(r, EXP2), r, 1.0)
    return x.like(0.0).where(vanishes, scale(power, whole))


def expm1(x: Num) -> Num:
    """Emits e**x - 1, with an error of at most 1.5 ulp; 2 ulp for f64.

    It is 2**n * (e**r - 1) + (2**n - 1), computed in halves because 2**128 is not a number of f32.
    """
    constants = format_of(x)
    half = quarter_expm1(clamp(x, constants.expm1_min, constants.range[1]), parts=1)
    # below this bound the sum would lose the sign of zero and the last bit of a denormal
    return x.where(x.abs() < 2.0 ** -(constants.mantissa + 2), half + half)


def quarter_expm1(x: Num, parts: int = 2) -> Num:
    """Emits (e**x - 1) / 2**parts for a clamped x."""
    e, constants = x.emitter, format_of(x)
    whole, r = reduce(x)
    power = power_of_two(whole, -parts)
    if is_double(x):
        return e.fma(e.horner(r, constants.exp) * (r * r), power, e.fma(r, power, power - 0.5**parts))
    return e.fma(e.fma(e.horner(r, constants.exp), r * r, r), power, power - 0.5**parts)


def quarter_exp(x: Num) -> Num:
    """Emits e**x / 4 for a clamped x that is not far below 0."""
    whole, r = reduce(x)
    return tail(r, format_of(x).exp) * power_of_two(whole, -2)


def exp_of_sum(high: Num, low: Num) -> Num:
    """Emits e**(high + low) in f64, for |low| much less than 1."""
    whole, r = reduce(clamp(high, *DOUBLE.range))
    return scale(tail(r + low, DOUBLE.exp), whole)


def clamp(x: Num, low: float, high: float) -> Num:
    """Clamps x to [low, high] and keeps NaN: with the constant as first operand, x86's min and max return a NaN x."""
    x = x.like(high).where(x.like(high) < x, x)
    return x.like(low).where(x.like(low) > x, x)


def _within(x: Num, low: float, high: float) -> tuple[Num, Num]:
    """Returns whether x is below `low`, and x, clamped to `high`, or 0 if it is. Scaling to a number below the denormals is
    microcode on x86, a hundred cycles for a vector, and exponentials of what a mask has set to -inf would be such numbers."""
    vanishes = x.like(low) > x
    return vanishes, x.like(0.0).where(vanishes, x.like(high).where(x.like(high) < x, x))


def reduce(x: Num) -> tuple[Num, Num]:
    """Reduces x = n ln 2 + r with |r| <= ln(2)/2; returns n + `round`, and r. The products with the first part of ln 2 are exact,
    in f32 for |n| < 2**8."""
    e, constants = x.emitter, format_of(x)
    whole = e.fma(x, LOG2_E, constants.round)
    n = whole - constants.round
    return whole, e.fma(n, -constants.ln2[1], e.fma(n, -constants.ln2[0], x))


def tail(r: Num, coefficients: tuple[float, ...]) -> Num:
    """Emits e**r for a reduced r."""
    e = r.emitter
    return e.fma(e.fma(e.horner(r, coefficients), r, 1.0), r, 1.0)


def short_exp(x: Num) -> Num:
    """Emits e**x in f32 for -60 < x < 60, with a relative error below 2**-22: by the first part of ln 2 and the short
    polynomial."""
    e = x.emitter
    whole = e.fma(x, LOG2_E, SINGLE.round)
    r = e.fma(whole - SINGLE.round, -SINGLE.ln2[0], x)
    return ((whole.bits() << 23) + tail(r, EXP_SHORT).bits()).as_float()


def power_of_two(whole: Num, shift: int = 0) -> Num:
    """Emits 2**(n + shift) for whole = n + `round`, if that is a normal number: n, the low bits, is shifted into the exponent."""
    constants = format_of(whole)
    return ((whole.bits() + (constants.bias + shift)) << constants.mantissa).as_float()


def scale(x: Num, whole: Num) -> Num:
    """Emits x * 2**n for whole = n + `round`, rounded once if the result is a denormal."""
    e, constants = x.emitter, format_of(x)
    count = whole.bits() - constants.round_bits
    if is_double(x):  # in 32 bits, whose vectors every target can shift
        count = count.cast("arith.trunci", ir.IntegerType.get_signless(32))
    if e.ldexp and len(e.shape) == 1:  # LLVM's intrinsic; the LLVM dialect's own op for it takes no vectors
        return e.intrinsic("llvm.ldexp", x, count)
    # two factors, since 2**n alone may not be a normal number; the first product is exact
    half = count >> 1
    return x * _power_of(half, constants) * _power_of(count - half, constants)


def _power_of(count: Num, float_format: FloatFormat) -> Num:
    """Emits 2**count for an i32, if that is a normal number."""
    wide = count if float_format is SINGLE else count.cast("arith.extsi", ir.IntegerType.get_signless(64))
    return ((wide + float_format.bias) << float_format.mantissa).as_float()
