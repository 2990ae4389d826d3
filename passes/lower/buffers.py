"""Finds properties of a kernel's buffers that LLVM may rely on: no other pointer reaches their memory (noalias), and nothing writes
it (readonly). Sees memory as memrefs of rank 1."""

from collections.abc import Mapping, Sequence

from torch_mlir import ir
from torch_mlir.dialects import memref

from lamina.core.errors import CompileError

from ..ir.locations import where
from ..ir.reading import producer, terminator

VIEWS = {"memref.subview", "memref.reinterpret_cast", "memref.collapse_shape", "memref.expand_shape", "memref.cast"}
WRITES = {
    "vector.transfer_write": 1, "vector.store": 1, "vector.maskedstore": 0, "vector.scatter": 0, "memref.store": 1,
    "memref.atomic_rmw": 1, "memref.generic_atomic_rmw": 0,
}  # fmt: skip
"""Maps each op that writes memory to the number of its operand that is the memory."""


def argument_attributes(
    function: ir.Operation, arguments: Sequence[ir.Value], ops: Mapping[str, Sequence[ir.Operation]]
) -> list[list[str]]:
    """Returns the attributes of each of a tile program's arguments: noalias for all but those that `tile.alias` lists (a unit
    attribute: all), readonly where nothing writes. ops: the function's, by name."""
    alias = function.attributes.get("tile.alias", ())
    shared = range(len(arguments)) if isinstance(alias, ir.UnitAttr) else list(alias)
    stores = {op.operands[at] for name, at in WRITES.items() for op in ops.get(name, ())}
    written = {root for memory in stores for root in roots(memory)}
    return [
        ([] if i in shared else ["llvm.noalias"]) + ([] if argument in written else ["llvm.readonly"])
        for i, argument in enumerate(arguments)
    ]


def flat(memory: ir.Value) -> ir.Value:
    """Returns memory as a contiguous memref of rank 1 from its first to its last element. Raises CompileError if its offset is
    not known."""
    type_ = ir.MemRefType(memory.type)
    strides, offset = type_.get_strides_and_offset()
    if type_.rank == 1 and strides == [1]:
        return memory
    if offset == ir.ShapedType.get_dynamic_stride_or_offset():
        raise CompileError(
            f"{type_} starts at an offset that is not known",
            where=where(ir.Location.current),
            remedy="add the offset to the indices instead of giving it to the memref",
        )
    span = 1 + sum((n - 1) * s for n, s in zip(type_.shape, strides, strict=True)) if 0 not in type_.shape else 1
    whole = ir.MemRefType.get([span], type_.element_type)
    return memref.ReinterpretCastOp(whole, memory, [], [], [], [offset], [span], [1]).result


def roots(memory: ir.Value) -> list[ir.Value]:
    """Returns the function argument or allocation that `memory` is a view of: several, where it is a choice among buffers."""
    op = producer(memory)
    if op is not None and op.name in VIEWS:
        return roots(op.operands[0])
    if op is not None and op.name == "scf.index_switch":
        ends = [terminator(r.blocks[0]) for r in op.regions]
        return [found for end in ends for found in roots(end.operands[ir.OpResult(memory).result_number])]
    return [memory]
