"""Lowers tile.sort: a bitonic sort of a block by shuffles, least and greatest elements."""

from torch_mlir import ir

from ...ir.emit import Emit
from ...ir.rewriting import replace_op
from ..sorting import highest, step_masks


def lower_sort(op: ir.Operation) -> None:
    """Lowers one tile.sort: each step compares every lane with its partner, and takes the lesser or the greater one."""
    (block,) = op.operands
    type_ = ir.VectorType(block.type)
    (lanes,) = type_.shape
    e = Emit(ir.InsertionPoint(op), op.location, [lanes])

    def shuffled(a: ir.Value, b: ir.Value, places: list[int]) -> ir.Value:
        """Picks lanes of two vectors."""
        return e.op("vector.shuffle", [type_], [a, b], mask=ir.DenseI64ArrayAttr.get(places)).result

    for mask in step_masks(lanes):
        other = shuffled(block, block, [i ^ mask for i in range(lanes)])
        lesser, greater = (e.op(name, [type_], [block, other]).result for name in ("arith.minsi", "arith.maxsi"))
        block = shuffled(lesser, greater, [i + lanes if i & highest(mask) else i for i in range(lanes)])
    replace_op(op, block)
