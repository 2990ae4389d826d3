"""Writes accesses and views of memory as text: `%5 = %1[%4]`, `%2[%4] = %5`, `%1 = %arg0 as 64xf32`."""

from collections.abc import Callable

from torch_mlir import ir

from .names import literal, type_text

_SEGMENTS = "operandSegmentSizes"
_OFFSET = "static_offsets"
_RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape", "memref.collapse_shape", "memref.expand_shape")
_DYNAMIC = -(1 << 63)


def memory_line(op: ir.Operation, operand: Callable[[ir.Value], str], name: Callable[[ir.Value], str]) -> str:
    """Returns the line of an op that reads, writes or views memory, without its type; "" for other ops.

    operand  the text of a value where it is used
    name     the name of a result
    """
    if op.name in ("vector.transfer_read", "vector.load", "memref.load", "tensor.extract"):
        source, indices, rest = _parts(op, 0)
        mask = f" where {operand(rest[1])}" if len(rest) > 1 else ""
        return f"{name(op.results[0])} = {_element(source, indices, operand)}{mask}"
    if op.name in ("vector.transfer_write", "vector.store", "memref.store"):
        target, indices, rest = _parts(op, 1)
        mask = f" where {operand(rest[0])}" if rest else ""
        return f"{_element(target, indices, operand)} = {operand(op.operands[0])}{mask}"
    if op.name == "memref.reinterpret_cast":
        offset = next(iter(ir.DenseI64ArrayAttr(op.attributes[_OFFSET])))
        at = operand(op.operands[1]) if offset == _DYNAMIC else str(offset)
        return f"{name(op.results[0])} = {operand(op.operands[0])} from {at} as {type_text(op.results[0].type)}"
    if op.name == "linalg.transpose":
        return f"{name(op.results[0])} = transpose {operand(op.operands[0])} by {literal(op.attributes['permutation'])}"
    if op.name in _RESHAPES:
        return f"{name(op.results[0])} = reshape {operand(op.operands[0])}"
    if op.name == "plan.input":
        return f"{name(op.results[0])} = input {literal(op.attributes['index'])}"
    if op.name == "plan.view":
        offset = ir.IntegerAttr(op.attributes["offset"]).value
        return f"{name(op.results[0])} = view {operand(op.operands[0])}" + (f" from {offset}" if offset else "")
    return ""


def _parts(op: ir.Operation, first: int) -> tuple[ir.Value, list[ir.Value], list[ir.Value]]:
    """Returns the memory, which is operand `first`, the indices behind it, and what follows these, such as a mask."""
    values = list(op.operands)
    count = len(values) - first - 1
    if _SEGMENTS in op.attributes:
        count = list(ir.DenseI32ArrayAttr(op.attributes[_SEGMENTS]))[first + 1]
    return values[first], values[first + 1 : first + 1 + count], values[first + 1 + count :]


def _element(memory: ir.Value, indices: list[ir.Value], operand: Callable[[ir.Value], str]) -> str:
    return f"{operand(memory)}[{', '.join(map(operand, indices))}]"
