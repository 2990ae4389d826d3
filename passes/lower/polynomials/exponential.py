"""exp, exp2 and expm1, and the parts of exp that other functions use."""

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
    """What formulas need to know of f32 or f64.

    mantissa    bits of it; the exponent's stand above
    bias        of the exponent
    ln2         ln 2 in two parts
    exp         the polynomial q for exp(r) = 1 + r + r*r*q(r), |r| <= ln(2)/2
    range       exp is 0 below, infinite above
    range_exp2  the same for 2**x
    least       exp(x) - 1 rounds to -1 below
    """

    mantissa: int
    bias: int
    ln2: tuple[float, float]
    exp: tuple[float, ...]
    range: tuple[float, float]
    range_exp2: tuple[float, float]
    least: float

    @property
    def round(self) -> float:
        """A number of which adding it leaves the nearest integer in the low bits of the sum."""
        return 1.5 * 2.0**self.mantissa

    @property
    def round_bits(self) -> int:
        """The bits of `round`: those of the sum are these plus the integer."""
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
    """Returns whether x is of f64, not of f32."""
    return isinstance(x.element, ir.F64Type)


def format_of(x: Num) -> FloatFormat:
    """Returns the format of a float."""
    return DOUBLE if is_double(x) else SINGLE


def exp(x: Num) -> Num:
    """e**x, at most 1 ulp. For f32 15 operations where the target has ldexp, else 21."""
    of = format_of(x)
    whole, r = reduce(clamp(x, *of.range))
    return scale(tail(r, of.exp), whole)


def exp2(x: Num) -> Num:
    """2**x, at most 1 ulp; of f64 1.5 ulp."""
    of = format_of(x)
    x = clamp(x, *of.range_exp2)
    whole = x + of.round
    r = x - (whole - of.round)
    return scale(tail(r * LN2, of.exp) if is_double(x) else x.at.fma(x.at.horner(r, EXP2), r, 1.0), whole)


def expm1(x: Num) -> Num:
    """e**x - 1, at most 1.5 ulp, of f64 2: 2**n * (e**r - 1) + (2**n - 1), in halves so that 2**128 need not exist."""
    of = format_of(x)
    half = quarter_expm1(clamp(x, of.least, of.range[1]), parts=1)
    # below this bound the sum would lose the sign of zero and the last bit of a denormal
    return x.where(x.abs() < 2.0 ** -(of.mantissa + 2), half + half)


def quarter_expm1(x: Num, parts: int = 2) -> Num:
    """(e**x - 1) / 2**parts for clamped x."""
    e, of = x.at, format_of(x)
    whole, r = reduce(x)
    power = power_of_two(whole, -parts)
    if is_double(x):
        return e.fma(e.horner(r, of.exp) * (r * r), power, e.fma(r, power, power - 0.5**parts))
    return e.fma(e.fma(e.horner(r, of.exp), r * r, r), power, power - 0.5**parts)


def quarter_exp(x: Num) -> Num:
    """e**x / 4 for clamped x that is not far below 0."""
    whole, r = reduce(x)
    return tail(r, format_of(x).exp) * power_of_two(whole, -2)


def exp_of_sum(high: Num, low: Num) -> Num:
    """e**(high + low) of f64 for a low that is small compared to 1."""
    whole, r = reduce(clamp(high, *DOUBLE.range))
    return scale(tail(r + low, DOUBLE.exp), whole)


def clamp(x: Num, low: float, high: float) -> Num:
    """Clamps x to [low, high], keeping NaN: with the constant first, x86's min and max return x when it is NaN."""
    x = x.like(high).where(x.like(high) < x, x)
    return x.like(low).where(x.like(low) > x, x)


def reduce(x: Num) -> tuple[Num, Num]:
    """Returns n + `round` and r with x = n ln 2 + r, |r| <= ln(2)/2 (Cody-Waite in two parts; for f32 exact for |n| < 2**8)."""
    e, of = x.at, format_of(x)
    whole = e.fma(x, LOG2_E, of.round)
    n = whole - of.round
    return whole, e.fma(n, -of.ln2[1], e.fma(n, -of.ln2[0], x))


def tail(r: Num, coefficients: tuple[float, ...]) -> Num:
    """e**r for reduced r."""
    e = r.at
    return e.fma(e.fma(e.horner(r, coefficients), r, 1.0), r, 1.0)


def short_exp(x: Num) -> Num:
    """e**x of f32 for -60 < x < 60, relative error below 2**-22: one part of ln 2 and the short polynomial."""
    e = x.at
    whole = e.fma(x, LOG2_E, SINGLE.round)
    r = e.fma(whole - SINGLE.round, -SINGLE.ln2[0], x)
    return ((whole.bits() << 23) + tail(r, EXP_SHORT).bits()).as_float()


def power_of_two(whole: Num, shift: int = 0) -> Num:
    """2**(n + shift) for whole = n + `round`, where that is a normal number: the sum's low bits are n, and move to the exponent."""
    of = format_of(whole)
    return ((whole.bits() + (of.bias + shift)) << of.mantissa).as_float()


def scale(x: Num, whole: Num) -> Num:
    """x * 2**n for whole = n + `round`, rounded once where the result is a denormal."""
    e, of = x.at, format_of(x)
    count = whole.bits() - of.round_bits
    if is_double(x):  # by way of 32 bits, for which every target shifts vectors
        count = count.cast("arith.trunci", ir.IntegerType.get_signless(32))
    if e.ldexp and len(e.shape) == 1:  # LLVM's intrinsic; the LLVM dialect's own op for it takes no vectors
        return e.intrinsic("llvm.ldexp", x, count)
    # two factors, since 2**n alone need be no normal number; the first product is exact
    half = count >> 1
    return x * _power_of(half, of) * _power_of(count - half, of)


def _power_of(count: Num, of: FloatFormat) -> Num:
    """2**count for an i32, where that is a normal number."""
    wide = count if of is SINGLE else count.cast("arith.extsi", ir.IntegerType.get_signless(64))
    return ((wide + of.bias) << of.mantissa).as_float()
