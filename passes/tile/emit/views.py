"""Memory seen with other sizes and strides, and the attributes of its accesses."""

from collections.abc import Iterable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import memref


def flat(memory: ir.Value) -> ir.Value:
    """Returns memory as a contiguous memref of rank 1 from its first to its last element."""
    type_ = ir.MemRefType(memory.type)
    strides, _ = type_.get_strides_and_offset()
    if type_.rank == 1 and strides == [1]:
        return memory
    span = 1 + sum((n - 1) * s for n, s in zip(type_.shape, strides, strict=True)) if 0 not in type_.shape else 1
    whole = ir.MemRefType.get([span], type_.element_type)
    return memref.ReinterpretCastOp(whole, memory, [], [], [], [0], [span], [1]).result


def view(entry: ir.Block, memory: ir.Value, offset: int, sizes: Sequence[int], strides: Sequence[int]) -> ir.Value:
    """Returns memory seen as an array of these sizes and strides, at the start of the block `entry`."""
    layout = ir.StridedLayoutAttr.get(offset, strides)
    type_ = ir.MemRefType.get(sizes, ir.MemRefType(memory.type).element_type, layout)
    with ir.InsertionPoint.at_block_begin(entry):
        return memref.ReinterpretCastOp(type_, memory, [], [], [], [offset], sizes, strides).result


def minor(rank: int) -> ir.AffineMap:
    """Returns the map from an array's dimensions to a tile's, which are the last two."""
    return ir.AffineMap.get(rank, 0, [ir.AffineDimExpr.get(rank - 2 + d) for d in range(2)])


def flags(values: Iterable[bool]) -> ir.ArrayAttr:
    """Returns bools as an attribute, such as whether a block is in bounds along each side."""
    return ir.ArrayAttr.get([ir.BoolAttr.get(v) for v in values])
