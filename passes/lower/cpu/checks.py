"""Lowers tile.check to a branch that reports to the caller."""

import math

from torch_mlir import ir

from ...ir.emit import Emit


def lower_check(op: ir.Operation, slot: ir.Value | None, messages: list[str]) -> None:
    """Lowers a tile.check to a branch that stores the message's number + 1 in the error slot."""
    message = ir.StringAttr(op.attributes["message"]).value
    if message not in messages:
        messages.append(message)
    ok = op.operands[0]
    e = Emit(ir.InsertionPoint(op), op.location)
    i1 = ir.IntegerType.get_signless(1)
    if isinstance(ok.type, ir.VectorType):
        if ok.type.rank > 1:
            ok = e.op("vector.shape_cast", [ir.VectorType.get([math.prod(ok.type.shape)], i1)], [ok]).result
        ok = e.op("vector.reduction", [i1], [ok], kind=ir.Attribute.parse("#vector.kind<and>")).result
    failed = e.wrap(ok) ^ 1
    branch = ir.Operation.create("scf.if", [], [failed.value], regions=2, loc=op.location, ip=e.ip)
    inner = Emit(ir.InsertionPoint(branch.regions[0].blocks.append()), op.location)
    number = inner.constant(messages.index(message) + 1, ir.IntegerType.get_signless(64))
    at = inner.constant(0, ir.IndexType.get())
    inner.op("memref.store", [], [number.value, slot, at.value])
    inner.op("scf.yield", [], [])
    op.erase()
