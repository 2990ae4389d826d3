"""Computes addresses of elements in global memory, for instructions that no dialect has."""

from torch_mlir import ir

from ...ir.emit import Emit

_GLOBAL = 1  # the address space


def address(
    e: Emit, memory: ir.Value, place: ir.Value, element: ir.Type, index_bits: int, later: ir.Value | None = None, apart: int = 0
) -> ir.Value:
    """Returns the address of element `place + apart` of a memref of rank 1 in global memory. later: a zero to add, an i64."""
    pointer, integer = ir.Type.parse("!llvm.ptr"), f"i{index_bits}"
    descriptor = ir.Type.parse(f"!llvm.struct<(ptr, ptr, {integer}, array<1 x {integer}>, array<1 x {integer}>)>")
    item = ir.IntegerType.get_signless(element.width)  # as LLVM has no float8
    whole = e.op("builtin.unrealized_conversion_cast", [descriptor], [memory]).result
    dynamic = -(2**31)

    def further(start: ir.Value, by: list[ir.Value], of: ir.Type, constant: int = dynamic) -> ir.Value:
        """Adds a number of elements to an address."""
        how = {"rawConstantIndices": ir.DenseI32ArrayAttr.get([constant]), "elem_type": ir.TypeAttr.get(of)}
        return e.op("llvm.getelementptr", [pointer], [start, *by], **how).result

    start = e.op("llvm.extractvalue", [pointer], [whole], position=ir.DenseI64ArrayAttr.get([1])).result  # the aligned pointer
    if later is not None:
        start = further(start, [later], ir.IntegerType.get_signless(8))
    index = e.op("arith.index_cast", [ir.IntegerType.get_signless(index_bits)], [place]).result
    start = further(start, [index], item)
    if apart:
        start = further(start, [], item, apart)
    return e.op("llvm.addrspacecast", [ir.Type.parse(f"!llvm.ptr<{_GLOBAL}>")], [start]).result
