"""sin, cos and tan of f32."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from torch_mlir import ir

from ...ir.emit import Emit, Num
from .exponential import ROUND

TWO_OVER_PI = 0.6366197723675814
HALF_PI = 1.570796251296997, 7.549789415861596e-08, 5.390302529957765e-15  # its parts, all positive so that -0 stays
# sin(r) = r + r**3*q(r*r) for |r| <= pi/4, relative error 2**-28; cos(r) = 1 - r*r/2 + r**4*q(r*r), 2**-33
SIN = (-0.000195152184, 0.0083321603, -0.166666552)
COS = (2.44330822e-05, -0.00138873153, 0.0416666456)
LARGEST = 1.0e5  # up to here three parts of pi/2 suffice
# a word of zeros, then 1/(2 pi) in words of 32 bits
TURNS = (0, 0x28BE60DB, 0x9391054A, 0x7F09D5F4, 0x7D4D3770, 0x36D8A566, 0x4F10E410, 0x7F9458EA)


def sin(x: Num) -> Num:
    """Sine, at most 2 ulp for every finite x."""
    quadrant, r = reduce(x)
    return wave(quadrant, sine(r, SIN), _cos(r))


def cos(x: Num) -> Num:
    """Cosine, at most 2 ulp for every finite x."""
    quadrant, r = reduce(x)
    return wave(quadrant + 1, sine(r, SIN), _cos(r))


def tan(x: Num) -> Num:
    """Tangent, at most 3.5 ulp for every finite x."""
    quadrant, r = reduce(x)
    return slope(sine(r, SIN), _cos(r), quadrant)


def sine(r: Num, coefficients: Sequence[float]) -> Num:
    """sin(r) = r + r**3*q(r*r) for |r| <= pi/4, by the coefficients of q."""
    square = r * r
    return r.at.fma(r.at.horner(square, coefficients) * square, r, r).copysign(r)


def _cos(r: Num) -> Num:
    e = r.at
    square = r * r
    return e.fma(e.fma(e.horner(square, COS), square, -0.5), square, 1.0)


def wave(quadrant: Num, sine: Num, cosine: Num) -> Num:
    """sin(r + quadrant * pi/2) from sin(r) and cos(r), in f32 or f64."""
    value = cosine.where((quadrant & 1).compare("ne", 0), sine)
    return (value.bits() ^ ((quadrant & 2) << (value.element.width - 2))).as_float()


def slope(sine: Num, cosine: Num, quadrant: Num) -> Num:
    """tan(r + quadrant * pi/2) from sin(r) and cos(r)."""
    odd = (quadrant & 1).compare("ne", 0)
    return (-cosine).where(odd, sine) / sine.where(odd, cosine)


def reduce(x: Num) -> tuple[Num, Num]:
    """Returns q and r with x = q*pi/2 + r (q modulo 4), |r| <= pi/4."""
    return by_parts(x, ROUND, HALF_PI, LARGEST, _exact)


def by_parts(
    x: Num, rounding: float, parts: tuple[float, ...], largest: float, exact: Callable[[Num], tuple[Num, Num]]
) -> tuple[Num, Num]:
    """Returns q and r with x = q*pi/2 + r (the two lowest bits of q count), |r| <= pi/4: by `parts` of pi/2, and by `exact` in a
    branch taken where any |x| > `largest`. rounding: 1.5 times the power of two that leaves no bits for a fraction."""
    e = x.at
    whole = e.fma(x, TWO_OVER_PI, rounding)
    n = whole - rounding
    r = x
    for part in parts:
        r = e.fma(n, -part, r)
    far = x.abs() > largest
    usual = [whole.bits().value, r.value]
    types = [v.type for v in usual]
    branch = ir.Operation.create("scf.if", types, [e.any(far).value], regions=2, loc=e.loc, ip=e.ip)
    then, otherwise = (Emit(ir.InsertionPoint(region.blocks.append()), e.loc, e.shape) for region in branch.regions)
    chosen = [v.where(then.wrap(far.value), then.wrap(u)).value for v, u in zip(exact(then.wrap(x.value)), usual, strict=True)]
    then.op("scf.yield", [], chosen)
    otherwise.op("scf.yield", [], usual)
    return e.wrap(branch.results[0]), e.wrap(branch.results[1])


def _exact(x: Num) -> tuple[Num, Num]:
    """Reduces |x| >= 1 as M. Payne and R. Hanek do (Radian reduction for trigonometric functions, 1983).

    x = m * 2**s with m < 1 of 24 bits. Of 1/(2 pi) * 2**s, the words that m turns into whole turns are left out; the next 96 bits
    times m, to 64 bits of fraction, are the angle in turns: two bits of quadrant, 62 within it.
    """
    e = x.at
    i64 = ir.IntegerType.get_signless(64)
    bits = x.bits()
    exponent = (bits.shr(23) & 0xFF) - 126
    word = exponent.shr(5)
    shift = (exponent & 31).cast("arith.extui", i64)
    words = words_from(e, TURNS, word, i64, 5)
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
    return signed(x, bits, quadrant, r)


def words_from(e: Emit, turns: Sequence[int], word: Num, element: ir.Type, count: int) -> list[Num]:
    """Returns the four words of `turns` from number `word` on, which is below `count`."""
    words = []
    for k in range(4):
        value = e.constant(turns[k], element)
        for first in range(1, min(count, len(turns) - k)):
            value = value.like(turns[first + k]).where(word.compare("eq", first), value)
        words.append(value)
    return words


def signed(x: Num, bits: Num, quadrant: Num, r: Num) -> tuple[Num, Num]:
    """Returns the quadrant and the remainder of x from those of |x|, given its bits; NaN for the remainder of an infinity."""
    negative = bits < 0
    finite = x.abs() < float("inf")
    return (0 - quadrant).where(negative, quadrant), (-r).where(negative, r).where(finite, float("nan"))
