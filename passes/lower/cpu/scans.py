"""Lowers tile.scan: prefixes of a block by shuffles of doubling distance; the carry joins last, so that blocks wait for each
other for one op."""

from torch_mlir import ir

from ...ir.emit import Emit
from ...ir.reading import neutral
from ...ir.rewriting import replace_op


def lower_scan(op: ir.Operation) -> None:
    """Lowers one tile.scan to log2(lanes) steps of shuffle and op, then one op with the carry."""
    block, carry = op.operands
    of, name = ir.VectorType(block.type), ir.StringAttr(op.attributes["combine"]).value
    (lanes,) = of.shape
    e = Emit(ir.InsertionPoint(op), op.location, [lanes])
    scalar = Emit(e.ip, e.loc)
    nothing = e.constant(neutral(name, str(of.element_type)), of.element_type).value
    reach = 1
    while reach < lanes:
        mask = ir.DenseI64ArrayAttr.get([i - reach if i >= reach else lanes + i for i in range(lanes)])
        before = e.op("vector.shuffle", [of], [block, nothing], mask=mask).result
        block = e.op(name, [of], [before, block]).result
        reach *= 2
    last = e.op("vector.extract", [of.element_type], [block], static_position=ir.DenseI64ArrayAttr.get([lanes - 1])).result
    start = e.op("vector.broadcast", [of], [carry]).result
    replace_op(op, e.op(name, [of], [start, block]).result, scalar.op(name, [of.element_type], [carry, last]).result)
