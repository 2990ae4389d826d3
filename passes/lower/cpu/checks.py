"""Lowers tile.check to a branch that reports to the caller."""

from torch_mlir import ir

from ...ir.emit import Emit


def lower_check(op: ir.Operation, slot: ir.Value | None, messages: list[str]) -> None:
    """Lowers a tile.check to a branch that stores the message's number + 1 in the error slot."""
    message = ir.StringAttr(op.attributes["message"]).value
    if message not in messages:
        messages.append(message)
    lanes, e = Emit.before(op, op.operands[0]), Emit(ir.InsertionPoint(op), op.location)
    failed = e.wrap(lanes.all(lanes.wrap(op.operands[0])).value) ^ 1
    branch = ir.Operation.create("scf.if", [], [failed.value], regions=2, loc=op.location, ip=e.ip)
    inner = Emit(ir.InsertionPoint(branch.regions[0].blocks.append()), op.location)
    number = inner.constant(messages.index(message) + 1, ir.IntegerType.get_signless(64))
    at = inner.constant(0, ir.IndexType.get())
    inner.op("memref.store", [], [number.value, slot, at.value])
    inner.op("scf.yield", [], [])
    op.erase()
