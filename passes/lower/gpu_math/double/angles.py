"""sin, cos and tan of f64, by the methods of polynomials.trigonometric with words of 64 bits."""

from itertools import pairwise

from torch_mlir import ir

from ....ir.emit import Num
from ...polynomials.trigonometric import by_parts, signed, sine, slope, wave, words_from

HALF_PI = 1.5707963267948966, 6.123233995736765e-17, 1.082856673921914e-32  # its parts, all positive so that -0 stays
ROUND = 1.5 * 2.0**52
LARGEST = 2.0**20  # up to here three parts of pi/2 suffice
# sin(r) = r + r**3*q(r*r) for |r| <= pi/4, error of q 2**-55.4; cos(r) = 1 - r*r/2 + r**4*q(r*r), 2**-59.4
SIN = (
    1.5917771759341917e-10, -2.5051126876085338e-08, 2.755731607868067e-06, -0.00019841269836712495, 0.008333333333330918,
    -0.16666666666666666,
)  # fmt: skip
COS = (
    -1.1382408754153254e-11, 2.087614315990944e-09, -2.755731725679604e-07, 2.4801587298736863e-05, -0.0013888888888887378,
    0.041666666666666664,
)  # fmt: skip
# a word of zeros, then 1/(2 pi) in words of 64 bits
TURNS = (
    0, 0x28BE60DB9391054A, 0x7F09D5F47D4D3770, 0x36D8A5664F10E410, 0x7F9458EAF7AEF158, 0x6DC91B8E909374B8, 0x01924BBA82746487,
    0x3F877AC72C4A69CF, 0xBA208D7D4BAED121, 0x3A671C09AD17DF90, 0x4E64758E60D4CE7D, 0x272117E2EF7E4A0E, 0xC7FE25FFF7816603,
    0xFBCBC462D6829B47, 0xDB4D9FB3C9F2C26D, 0xD3D18FD9A797FA8B, 0x5D49EEB1FAF97C5E, 0xCF41CE7DE294A4BA, 0x9AFED7EC47E35742,
    0x1580CC11BF1EDAEA, 0xFC33EF0826BD0D87,
)  # fmt: skip


def sin(x: Num) -> Num:
    """Sine, at most 3 ulp for every finite x."""
    quadrant, r = _reduce(x)
    return wave(quadrant, sine(r, SIN), _cos(r))


def cos(x: Num) -> Num:
    """Cosine, at most 3 ulp for every finite x."""
    quadrant, r = _reduce(x)
    return wave(quadrant + 1, sine(r, SIN), _cos(r))


def tan(x: Num) -> Num:
    """Tangent, at most 4 ulp for every finite x."""
    quadrant, r = _reduce(x)
    return slope(sine(r, SIN), _cos(r), quadrant)


def _cos(r: Num) -> Num:
    e = r.at
    square = r * r
    half = square * 0.5
    near = 1.0 - half
    return near + e.fma(e.horner(square, COS) * square, square, (1.0 - near) - half)


def _reduce(x: Num) -> tuple[Num, Num]:
    return by_parts(x, ROUND, HALF_PI, LARGEST, _exact)


def _exact(x: Num) -> tuple[Num, Num]:
    """Reduces |x| >= 1 as Payne and Hanek do: x = m * 2**s with m < 1 of 53 bits. Of 1/(2 pi) * 2**s, the words that m turns into
    whole turns are left out; the next 192 bits times m, to 128 bits of fraction, are the angle in turns."""
    e = x.at
    bits = x.bits()
    exponent = (bits.shr(52) & 0x7FF) - 1022
    word, shift = exponent.shr(6), exponent & 63
    words = words_from(e, TURNS, word, bits.element, 17)
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
    r = e.fma((below << 2).cast("arith.uitofp", f64), 2.0**-128, quarter) * HALF_PI[0]
    return signed(x, bits, quadrant, r)


def _upper(a: Num, b: Num) -> Num:
    """The upper 64 bits of the product of two unsigned numbers."""
    mask = (1 << 32) - 1
    al, ah, bl, bh = a & mask, a.shr(32), b & mask, b.shr(32)
    middle = ah * bl + (al * bl).shr(32)
    other = al * bh + (middle & mask)
    return ah * bh + middle.shr(32) + other.shr(32)
