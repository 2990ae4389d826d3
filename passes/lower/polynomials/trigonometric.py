"""Emits sin, cos and tan of f32 and f64."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from torch_mlir import ir

from ...ir.emit import Emit, Num
from .exponential import format_of, is_double

TWO_OVER_PI = 0.6366197723675814
# a word of zeros, then 1/(2 pi) in words of 32 bits
TURNS = (0, 0x28BE60DB, 0x9391054A, 0x7F09D5F4, 0x7D4D3770, 0x36D8A566, 0x4F10E410, 0x7F9458EA)
# the same in words of 64 bits
TURNS_DOUBLE = (
    0, 0x28BE60DB9391054A, 0x7F09D5F47D4D3770, 0x36D8A5664F10E410, 0x7F9458EAF7AEF158, 0x6DC91B8E909374B8, 0x01924BBA82746487,
    0x3F877AC72C4A69CF, 0xBA208D7D4BAED121, 0x3A671C09AD17DF90, 0x4E64758E60D4CE7D, 0x272117E2EF7E4A0E, 0xC7FE25FFF7816603,
    0xFBCBC462D6829B47, 0xDB4D9FB3C9F2C26D, 0xD3D18FD9A797FA8B, 0x5D49EEB1FAF97C5E, 0xCF41CE7DE294A4BA, 0x9AFED7EC47E35742,
    0x1580CC11BF1EDAEA, 0xFC33EF0826BD0D87,
)  # fmt: skip


def sin(x: Num) -> Num:
    """Sine, at most 2 ulp for every finite x, of f64 3."""
    quadrant, sine, cosine = _curves(x)
    return _wave(quadrant, sine, cosine)


def cos(x: Num) -> Num:
    """Cosine, at most 2 ulp for every finite x, of f64 3."""
    quadrant, sine, cosine = _curves(x)
    return _wave(quadrant + 1, sine, cosine)


def tan(x: Num) -> Num:
    """Tangent, at most 3.5 ulp for every finite x, of f64 4."""
    quadrant, sine, cosine = _curves(x)
    odd = (quadrant & 1).compare("ne", 0)
    return (-cosine).where(odd, sine) / sine.where(odd, cosine)


def _wave(quadrant: Num, sine: Num, cosine: Num) -> Num:
    """sin(r + quadrant * pi/2) from sin(r) and cos(r)."""
    value = cosine.where((quadrant & 1).compare("ne", 0), sine)
    return (value.bits() ^ ((quadrant & 2) << (value.element.width - 2))).as_float()


def _curves(x: Num) -> tuple[Num, Num, Num]:
    """Returns q, sin(r) and cos(r) with x = q*pi/2 + r (the two lowest bits of q count), |r| <= pi/4."""
    e, constants = x.emitter, ANGLES[str(x.element)]
    quadrant, r = _reduce(x, constants)
    square = r * r
    sine = e.fma(e.horner(square, constants.sine) * square, r, r).copysign(r)
    if not is_double(x):
        return quadrant, sine, e.fma(e.fma(e.horner(square, constants.cosine), square, -0.5), square, 1.0)
    half = square * 0.5
    near = 1.0 - half
    return quadrant, sine, near + e.fma(e.horner(square, constants.cosine) * square, square, (1.0 - near) - half)


def _reduce(x: Num, angles: "Angles") -> tuple[Num, Num]:
    """Returns q and r (see `_curves`): by parts of pi/2, and by `of.exact` in a branch taken where any |x| > `of.largest`."""
    e, rounding = x.emitter, format_of(x).round
    whole = e.fma(x, TWO_OVER_PI, rounding)
    n = whole - rounding
    r = x
    for part in angles.half_pi:
        r = e.fma(n, -part, r)
    far = x.abs() > angles.largest
    usual = [whole.bits().value, r.value]
    types = [v.type for v in usual]
    branch = ir.Operation.create("scf.if", types, [e.any(far).value], regions=2, loc=e.loc, ip=e.ip)
    then, otherwise = (Emit(ir.InsertionPoint(region.blocks.append()), e.loc, e.shape) for region in branch.regions)
    chosen = [
        v.where(then.wrap(far.value), then.wrap(u)).value for v, u in zip(angles.exact(then.wrap(x.value)), usual, strict=True)
    ]
    then.op("scf.yield", [], chosen)
    otherwise.op("scf.yield", [], usual)
    return e.wrap(branch.results[0]), e.wrap(branch.results[1])


def _exact(x: Num) -> tuple[Num, Num]:
    """Reduces |x| >= 1 as M. Payne and R. Hanek do (Radian reduction for trigonometric functions, 1983).

    x = m * 2**s with m < 1 of 24 bits. Of 1/(2 pi) * 2**s, the words that m turns into whole turns are left out; the next 96 bits
    times m, to 64 bits of fraction, are the angle in turns: two bits of quadrant, 62 within it.
    """
    e = x.emitter
    i64 = ir.IntegerType.get_signless(64)
    bits = x.bits()
    exponent = (bits.shr(23) & 0xFF) - 126
    word = exponent.shr(5)
    shift = (exponent & 31).cast("arith.extui", i64)
    words = _words_from(e, TURNS, word, i64, 5)
    high, middle, low = ((((a << 32) | b) << shift).shr(32) for a, b in pairwise(words))
    m = ((bits & 0x7FFFFF) | 0x800000).cast("arith.extui", i64) << 8
    turns = m * middle + (m * low).shr(32) + ((m * high) << 32)
    fraction = turns & ((1 << 62) - 1)
    upper = fraction >= 1 << 61
    quadrant = turns.shr(62).cast("arith.trunci", bits.element)
    quadrant = (quadrant + 1).where(upper, quadrant)
    fraction = (fraction - (1 << 62)).where(upper, fraction)
    angle = fraction.cast("arith.sitofp", ir.F64Type.get()) * (1.5707963267948966 * 2.0**-62)
    r = angle.cast("arith.truncf", x.element)
    return _signed(x, bits, quadrant, r)


def _exact_double(x: Num) -> tuple[Num, Num]:
    """Reduces |x| >= 1 as Payne and Hanek do: x = m * 2**s with m < 1 of 53 bits. Of 1/(2 pi) * 2**s, the words that m turns into
    whole turns are left out; the next 192 bits times m, to 128 bits of fraction, are the angle in turns."""
    e = x.emitter
    bits = x.bits()
    exponent = (bits.shr(52) & 0x7FF) - 1022
    word, shift = exponent.shr(6), exponent & 63
    words = _words_from(e, TURNS_DOUBLE, word, bits.element, 17)
    down = 63 - shift
    high, middle, low = ((a << shift) | b.shr(1).shr(down) for a, b in pairwise(words))
    m = ((bits & ((1 << 52) - 1)) | (1 << 52)) << 11
    below = m * middle + _upper(m, low)
    turns = m * high + _upper(m, middle) + e.constant(1, bits.element).where(below.compare("ult", m * middle), 0)
    quadrant = turns.shr(62)
    fraction = (turns << 2) | below.shr(62)
    quadrant = quadrant + fraction.shr(63)  # a fraction above 1/2 counts down from the next quadrant
    f64 = ir.F64Type.get()
    quarter = fraction.cast("arith.sitofp", f64) * 2.0**-64
    r = e.fma((below << 2).cast("arith.uitofp", f64), 2.0**-128, quarter) * 1.5707963267948966
    return _signed(x, bits, quadrant, r)


def _upper(a: Num, b: Num) -> Num:
    """The upper 64 bits of the product of two unsigned numbers."""
    mask = (1 << 32) - 1
    al, ah, bl, bh = a & mask, a.shr(32), b & mask, b.shr(32)
    middle = ah * bl + (al * bl).shr(32)
    other = al * bh + (middle & mask)
    return ah * bh + middle.shr(32) + other.shr(32)


def _words_from(e: Emit, turns: Sequence[int], word: Num, element: ir.Type, count: int) -> list[Num]:
    """Returns the four words of `turns` from number `word` on, which is below `count`."""
    words = []
    for k in range(4):
        value = e.constant(turns[k], element)
        for first in range(1, min(count, len(turns) - k)):
            value = value.like(turns[first + k]).where(word.compare("eq", first), value)
        words.append(value)
    return words


def _signed(x: Num, bits: Num, quadrant: Num, r: Num) -> tuple[Num, Num]:
    """Returns the quadrant and the remainder of x from those of |x|, given its bits; NaN for the remainder of an infinity."""
    negative = bits < 0
    finite = x.abs() < float("inf")
    return (0 - quadrant).where(negative, quadrant), (-r).where(negative, r).where(finite, float("nan"))


@dataclass(frozen=True)
class Angles:
    """The constants of f32 or f64 that reduce an angle to r, r at most pi/4 in magnitude, and the polynomials for it.

    half_pi  the parts of pi/2, all positive so that -0 stays
    largest  up to here these parts suffice
    exact    reduces larger angles
    sine     the polynomial q for sin(r) = r + r**3*q(r*r), |r| <= pi/4
    cosine   the same for cos(r) = 1 - r*r/2 + r**4*q(r*r)
    """

    half_pi: tuple[float, float, float]
    largest: float
    exact: Callable[[Num], tuple[Num, Num]]
    sine: tuple[float, ...]
    cosine: tuple[float, ...]


ANGLES = {
    "f32": Angles(
        (1.570796251296997, 7.549789415861596e-08, 5.390302529957765e-15), 1.0e5, _exact,
        (-0.000195152184, 0.0083321603, -0.166666552),  # relative error of the sine 2**-28
        (2.44330822e-05, -0.00138873153, 0.0416666456),  # of the cosine 2**-33
    ),
    "f64": Angles(
        (1.5707963267948966, 6.123233995736765e-17, 1.082856673921914e-32), 2.0**20, _exact_double,
        (
            1.5917771759341917e-10, -2.5051126876085338e-08, 2.755731607868067e-06, -0.00019841269836712495, 0.008333333333330918,
            -0.16666666666666666,
        ),  # error of q 2**-55.4
        (
            -1.1382408754153254e-11, 2.087614315990944e-09, -2.755731725679604e-07, 2.4801587298736863e-05, -0.0013888888888887378,
            0.041666666666666664,
        ),  # 2**-59.4
    ),
}  # fmt: skip
