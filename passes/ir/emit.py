"""Builds scalar and vector arithmetic on SSA values with Python's operators, so a lowering reads like its formula.

    e = Emit(ip, loc, shape=[16])
    x = e.wrap(op.operands[0])
    y = e.fma(x, x, e.f32(1.0)).where(x > 0.0, x)

One `Emit` serves one insertion point and one shape ([] for scalars): every constant is a scalar or a splat of that shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Union

from torch_mlir import ir

from .reading import element_of
from .rewriting import replace_op
from .sizes import i64

CMPF = {"oeq": 1, "ogt": 2, "oge": 3, "olt": 4, "ole": 5, "one": 6, "ord": 7, "ueq": 8, "ugt": 9, "uge": 10, "ult": 11}
CMPF |= {"ule": 12, "une": 13, "uno": 14}
CMPI = {"eq": 0, "ne": 1, "slt": 2, "sle": 3, "sgt": 4, "sge": 5, "ult": 6, "ule": 7, "ugt": 8, "uge": 9}
Scalar = Union["Num", float, int]


class Emit:
    """Builds ops of one shape at one insertion point. `ldexp`: the target scales by powers of two in one instruction."""

    def __init__(self, ip: ir.InsertionPoint, loc: ir.Location, shape: Sequence[int] = (), *, ldexp: bool = False) -> None:
        self.ip, self.loc, self.shape, self.ldexp = ip, loc, list(shape), ldexp
        self._constants: dict[tuple[str, str], Num] = {}

    @staticmethod
    def before(op: ir.Operation, like: ir.Value | None = None) -> Emit:
        """Returns an emitter in front of `op` with the shape of `like` (default: the op's first result)."""
        type_ = (op.results[0] if like is None else like).type
        return Emit(ir.InsertionPoint(op), op.location, type_.shape if isinstance(type_, ir.VectorType) else ())

    def op(self, name: str, results: Sequence[ir.Type], operands: Sequence[ir.Value], **attributes: ir.Attribute) -> ir.Operation:
        """Creates an op at the insertion point."""
        return ir.Operation.create(name, results, operands, attributes, loc=self.loc, ip=self.ip)

    def make(self, name: str, result: ir.Type, *operands: Num, **attributes: ir.Attribute) -> Num:
        """Creates an op with one result and wraps it."""
        return Num(self, self.op(name, [result], [x.value for x in operands], **attributes).results[0])

    def intrinsic(self, name: str, *operands: Num) -> Num:
        """Calls an LLVM intrinsic whose result has the first operand's type."""
        attributes: dict[str, ir.Attribute] = {
            "intrin": ir.StringAttr.get(name),
            "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands), 0]),
        }
        return self.make("llvm.call_intrinsic", operands[0].value.type, *operands, **attributes)

    def wrap(self, value: ir.Value) -> Num:
        """Wraps an SSA value."""
        return Num(self, value)

    def type(self, element: ir.Type) -> ir.Type:
        """Returns `element`, or a vector of it of this emitter's shape."""
        return ir.VectorType.get(self.shape, element) if self.shape else element

    def constant(self, value: float | int, element: ir.Type) -> Num:
        """Returns an arith.constant, scalar or splat, created once per value and type. Unsigned values wrap to signed ones."""
        key = (repr(value), str(element))
        if key not in self._constants:
            typed = ir.FloatAttr.get(element, value) if isinstance(element, ir.FloatType) else _integer(element, int(value))
            whole = self.type(element)
            attr = ir.DenseElementsAttr.get_splat(whole, typed) if self.shape else typed
            self._constants[key] = self.make("arith.constant", whole, value=attr)
        return self._constants[key]

    def f32(self, value: float) -> Num:
        """Returns an f32 constant."""
        return self.constant(value, ir.F32Type.get())

    def i32(self, value: int) -> Num:
        """Returns an i32 constant."""
        return self.constant(value, ir.IntegerType.get_signless(32))

    def fma(self, a: Num, b: Scalar, c: Scalar) -> Num:
        """Returns a * b + c, rounded once."""
        return self.make("math.fma", a.value.type, a, a.like(b), a.like(c))

    def horner(self, x: Num, coefficients: Sequence[float]) -> Num:
        """Evaluates the polynomial with `coefficients`, highest power first, at x by Horner's scheme."""
        result = x.like(coefficients[0])
        for c in coefficients[1:]:
            result = self.fma(result, x, c)
        return result

    def any(self, condition: Num) -> Num:
        """Returns a scalar i1: whether `condition` holds in any lane."""
        return self._joined(condition, "or")

    def all(self, condition: Num) -> Num:
        """Returns a scalar i1: whether `condition` holds in every lane."""
        return self._joined(condition, "and")

    def _joined(self, condition: Num, kind: str) -> Num:
        i1 = ir.IntegerType.get_signless(1)
        value = condition.value
        if not self.shape:
            return condition
        if len(self.shape) > 1:
            flat = ir.VectorType.get([math.prod(self.shape)], i1)
            value = self.op("vector.shape_cast", [flat], [value]).result
        return self.wrap(self.op("vector.reduction", [i1], [value], kind=ir.Attribute.parse(f"#vector.kind<{kind}>")).result)


def in_f32(op: ir.Operation, widen: Callable[[Num], Num]) -> Num:
    """Computes an op whose operands or results are narrow floats in f32, on what `widen` makes of its operands. The result is f32,
    or what a conversion or a comparison makes of f32."""
    e = Emit.before(op, op.operands[0])
    result = e.wrap(op.results[0])
    single = ir.F32Type.get() if result.is_float and result.element.width < 32 else result.element
    return e.make(op.name, e.type(single), *(widen(e.wrap(v)) for v in op.operands), **dict(op.attributes.items()))


def replace(op: ir.Operation, result: Num) -> None:
    """Replaces an op's only result by `result` and erases the op."""
    replace_op(op, result.value)


def _integer(element: ir.Type, value: int) -> ir.Attribute:
    if isinstance(element, ir.IntegerType) and element.width < 64 and value >= 1 << (element.width - 1):
        value -= 1 << element.width
    if isinstance(element, ir.IntegerType) and element.width == 64 and value >= 1 << 63:
        value -= 1 << 64
    return ir.IntegerAttr.get(element, value)


class Num:
    """An SSA value and its emitter. Comparisons give i1; those of floats are ordered and those of integers signed by default."""

    __slots__ = ("emitter", "value")

    def __init__(self, emitter: Emit, value: ir.Value) -> None:
        self.emitter, self.value = emitter, value

    @property
    def element(self) -> ir.Type:
        """The value's element type."""
        return element_of(self.value.type)

    @property
    def is_float(self) -> bool:
        """Whether the elements are floats."""
        return isinstance(self.element, ir.FloatType)

    def like(self, other: Scalar) -> Num:
        """Returns `other`; a Python number becomes a constant of this element type."""
        return other if isinstance(other, Num) else self.emitter.constant(other, self.element)

    def _binary(self, name: str, other: Scalar, *, swap: bool = False) -> Num:
        b = self.like(other)
        return self.emitter.make(name, self.value.type, *((b, self) if swap else (self, b)))

    def __add__(self, other: Scalar) -> Num:
        return self._binary("arith.addf" if self.is_float else "arith.addi", other)

    def __sub__(self, other: Scalar) -> Num:
        return self._binary("arith.subf" if self.is_float else "arith.subi", other)

    def __rsub__(self, other: Scalar) -> Num:
        return self._binary("arith.subf" if self.is_float else "arith.subi", other, swap=True)

    def __mul__(self, other: Scalar) -> Num:
        return self._binary("arith.mulf" if self.is_float else "arith.muli", other)

    def __truediv__(self, other: Scalar) -> Num:
        return self._binary("arith.divf", other)

    def __rtruediv__(self, other: Scalar) -> Num:
        return self._binary("arith.divf", other, swap=True)

    def __neg__(self) -> Num:
        return self.emitter.make("arith.negf", self.value.type, self)

    def __and__(self, other: Scalar) -> Num:
        return self._binary("arith.andi", other)

    def __or__(self, other: Scalar) -> Num:
        return self._binary("arith.ori", other)

    def __xor__(self, other: Scalar) -> Num:
        return self._binary("arith.xori", other)

    def __lshift__(self, other: Scalar) -> Num:
        return self._binary("arith.shli", other)

    def __rshift__(self, other: Scalar) -> Num:
        """Arithmetic shift; see `shr` for the logical one."""
        return self._binary("arith.shrsi", other)

    def shr(self, other: Scalar) -> Num:
        """Logical shift right."""
        return self._binary("arith.shrui", other)

    def compare(self, predicate: str, other: Scalar) -> Num:
        """Returns `self <predicate> other` as i1; predicates are the keys of CMPF for floats and of CMPI for integers."""
        i1 = self.emitter.type(ir.IntegerType.get_signless(1))
        table, name = (CMPF, "arith.cmpf") if self.is_float else (CMPI, "arith.cmpi")
        return self.emitter.make(name, i1, self, self.like(other), predicate=i64(table[predicate]))

    def __lt__(self, other: Scalar) -> Num:
        return self.compare("olt" if self.is_float else "slt", other)

    def __gt__(self, other: Scalar) -> Num:
        return self.compare("ogt" if self.is_float else "sgt", other)

    def __le__(self, other: Scalar) -> Num:
        return self.compare("ole" if self.is_float else "sle", other)

    def __ge__(self, other: Scalar) -> Num:
        return self.compare("oge" if self.is_float else "sge", other)

    def is_nan(self) -> Num:
        """Returns whether this is NaN, as i1."""
        return self.compare("uno", self)

    def where(self, condition: Num, otherwise: Scalar) -> Num:
        """Selects this where `condition` holds, else `otherwise`."""
        return self.emitter.make("arith.select", self.value.type, condition, self, self.like(otherwise))

    def bits(self) -> Num:
        """Bitcasts to an integer of the same width."""
        return self.cast("arith.bitcast", ir.IntegerType.get_signless(self.element.width))

    def as_float(self) -> Num:
        """Bitcasts to a float of the same width (16 bits: f16)."""
        return self.cast("arith.bitcast", {16: ir.F16Type, 32: ir.F32Type, 64: ir.F64Type}[self.element.width].get())

    def cast(self, name: str, element: ir.Type) -> Num:
        """Emits the conversion op `name`, such as arith.extf, to another element type."""
        return self.emitter.make(name, self.emitter.type(element), self)

    def to(self, element: ir.Type) -> Num:
        """Converts a float to another float type; returns itself where it is of that type."""
        if self.element == element:
            return self
        return self.cast("arith.extf" if self.element.width < element.width else "arith.truncf", element)

    def widened(self) -> Num:
        """Converts a float narrower than f32 to f32; returns any other value itself."""
        return self.to(ir.F32Type.get()) if self.is_float and self.element.width < 32 else self

    def abs(self) -> Num:
        """Absolute value of a float."""
        return self.emitter.make("math.absf", self.value.type, self)

    def sqrt(self) -> Num:
        """Square root."""
        return self.emitter.make("math.sqrt", self.value.type, self)

    def copysign(self, sign: Num) -> Num:
        """This magnitude with the sign of `sign`."""
        return self.emitter.make("math.copysign", self.value.type, self, sign)
