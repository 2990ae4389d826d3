"""bf16 as a storage type: rewrites it to 16-bit integers in memory and in vectors.

LLVM moves bf16 vectors through f32 and back by library calls where the processor has no bf16 instructions, even to load or
shuffle them. After `arithmetic` only moves of bf16 values are left, and integers move everywhere.
"""

import struct

from torch_mlir import ir

from lamina.core.errors import CompileError

from ...ir.locations import where
from ...ir.reading import element_of, nested
from ...ir.rewriting import replace_op
from .arithmetic import compute_in_f32

MOVES = {"arith.select", "arith.constant", "arith.bitcast"}


def uses_bf16(function: ir.Operation) -> bool:
    """Returns whether a tile program's memory holds bf16."""
    return any(_is_bf16(a.type) for a in function.regions[0].blocks[0].arguments)


def store_as_integers(function: ir.Operation) -> None:
    """Gives every bf16 value of a function the type i16. Raises CompileError for reductions and uneven constants of bf16."""
    for op in nested(function):
        concerned = any(_is_bf16(v.type) for v in (*op.operands, *op.results))
        if concerned and op.name.startswith(("arith.", "math.")) and op.name not in MOVES:
            compute_in_f32(op)
    ops = nested(function)
    for op in ops:
        if op.name in ("vector.reduction", "vector.multi_reduction", "vector.contract") and _is_bf16(op.operands[0].type):
            raise CompileError(f"{op.name} of bf16", where=where(op.location), remedy="extend to f32 first")
        if op.name == "arith.constant":
            _constant(op)
        arguments = (argument for region in op.regions for block in region.blocks for argument in block.arguments)
        for value in (*arguments, *op.results):
            if _is_bf16(value.type):
                value.set_type(_as_integer(value.type))
    for op in ops:
        if op.name == "arith.bitcast" and op.operands[0].type == op.results[0].type:
            replace_op(op, op.operands[0])


def _is_bf16(type_: ir.Type) -> bool:
    return isinstance(element_of(type_), ir.BF16Type)


def _as_integer(type_: ir.Type) -> ir.Type:
    i16 = ir.IntegerType.get_signless(16)
    if not _is_bf16(type_):
        return type_
    if isinstance(type_, ir.VectorType):
        return ir.VectorType.get(type_.shape, i16)
    return ir.MemRefType.get(type_.shape, i16, type_.layout, type_.memory_space) if isinstance(type_, ir.MemRefType) else i16


def _constant(op: ir.Operation) -> None:
    attribute, type_ = op.attributes["value"], op.results[0].type
    if not _is_bf16(type_):
        return
    i16 = ir.IntegerType.get_signless(16)
    if not isinstance(type_, ir.VectorType):
        op.attributes["value"] = ir.IntegerAttr.get(i16, _bits(ir.FloatAttr(attribute).value))
    elif attribute.is_splat:
        bits = ir.IntegerAttr.get(i16, _bits(attribute.get_splat_value().value))
        op.attributes["value"] = ir.DenseElementsAttr.get_splat(_as_integer(type_), bits)
    else:
        raise CompileError("a bf16 constant with different lanes", where=where(op.location), remedy="make it f32 and truncate it")


def _bits(value: float) -> int:
    """Returns the bits of a value that is a bf16, as a signed 16-bit integer."""
    return int(struct.unpack("<i", struct.pack("<f", value))[0]) >> 16
