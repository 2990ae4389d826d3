"""Expands conversions from and to 8-bit floats into integer arithmetic, rounding to the nearest, ties to even.

f8E4M3FN has no infinity: larger values become its largest number, 448, as with the hardware's conversion.
"""

from dataclasses import dataclass

from torch_mlir import ir

from ..ir.emit import Emit, Num, replace
from ..ir.reading import element_of

CASTS = ("arith.extf", "arith.truncf")


@dataclass(frozen=True)
class Format:
    """An 8-bit float format.

    mantissa       its bits
    bias           of the exponent
    overflow_bits  bits, in f32, of the least value that becomes `max_bits`
    max_bits       bits of the largest value that is not a NaN
    infinite       whether that is an infinity
    """

    mantissa: int
    bias: int
    overflow_bits: int
    max_bits: int
    infinite: bool

    @property
    def shift(self) -> int:
        """The digits of f32's mantissa that are not kept."""
        return 23 - self.mantissa

    @property
    def min_normal_exponent(self) -> int:
        """The exponent, in f32's bits, of the smallest normal number."""
        return 128 - self.bias


FORMATS = {"f8E4M3FN": Format(3, 7, 0x43E80000, 0x7E, False), "f8E5M2": Format(2, 15, 0x47800000, 0x7C, True)}
_NAN = 0x7F  # of both
_F32_INFINITE, _F32_NAN = 0x7F800000, 0x7FC00000


def is_cast(op: ir.Operation) -> bool:
    """Returns whether an op converts from or to an 8-bit float."""
    return op.name in CASTS and any(_element(v) in FORMATS for v in (op.operands[0], op.results[0]))


def expand(op: ir.Operation) -> None:
    """Replaces one such conversion, of vectors or scalars, by arithmetic."""
    e = Emit.before(op)
    x, f32 = e.wrap(op.operands[0]), ir.F32Type.get()
    source, target = _element(op.operands[0]), _element(op.results[0])
    wide = _widened(x, FORMATS[source]) if source in FORMATS else x.to(f32)
    result = _narrowed(wide, FORMATS[target], target) if target in FORMATS else wide.to(ir.Type.parse(target))
    replace(op, result)


def _element(v: ir.Value) -> str:
    return str(element_of(v.type))


def _narrowed(x: Num, format_: Format, name: str) -> Num:
    """Rounds f32 to 8 bits."""
    bits, i8 = x.bits(), ir.IntegerType.get_signless(8)
    sign = bits.shr(24) & 0x80
    size = bits & 0x7FFFFFFF
    magic = (format_.min_normal_exponent + format_.shift) << 23  # a number whose last digit is that of denormals
    denormal = (size.as_float() + x.emitter.i32(magic).as_float()).bits() - magic
    odd = size.shr(format_.shift) & 1
    normal = (size - ((format_.min_normal_exponent - 1) << 23) + ((1 << (format_.shift - 1)) - 1) + odd).shr(format_.shift)
    out = denormal.where(size.compare("ult", format_.min_normal_exponent << 23), normal)
    out = x.emitter.i32(format_.max_bits).where(size.compare("uge", format_.overflow_bits), out)
    out = x.emitter.i32(_NAN).where(size.compare("ugt", _F32_INFINITE), out)
    return (out | sign).cast("arith.trunci", i8).cast("arith.bitcast", ir.Type.parse(name))


def _widened(x: Num, format_: Format) -> Num:
    """Converts 8 bits to f32."""
    bits = x.cast("arith.bitcast", ir.IntegerType.get_signless(8)).cast("arith.extui", ir.IntegerType.get_signless(32))
    size = bits & 0x7F
    digits = size << format_.shift
    normal = digits + ((format_.min_normal_exponent - 1) << 23)
    least = x.emitter.i32(format_.min_normal_exponent << 23)
    denormal = ((digits + least).as_float() - least.as_float()).bits()
    out = denormal.where(size.compare("ult", 1 << format_.mantissa), normal)
    if format_.infinite:
        out = x.emitter.i32(_F32_INFINITE).where(size.compare("eq", format_.max_bits), out)
    out = x.emitter.i32(_F32_NAN).where(size.compare("ugt", format_.max_bits), out)
    return (out | ((bits & 0x80) << 24)).as_float()
