"""Lowers tile.scatter: stores lane by lane, or combines lanes with elements in memory, which no other program changes meanwhile."""

from collections.abc import Callable
from functools import partial

from torch_mlir import ir

from lamina.dialects.combining import COMBINE

from ...ir.emit import Emit
from ...ir.reading import number_of
from ..lane_indices import lane_stride
from .arithmetic import extremum
from .memory import flat_of


def lower_scatter(op: ir.Operation) -> None:
    """Lowers tile.scatter to a scatter from the first element on; one that combines, to loads and stores."""
    value, memory, index, mask = op.operands
    e = Emit.before(op, op.operands[0])
    memory, step = flat_of(e, memory)
    if COMBINE in op.attributes:
        _combine(op, memory, step)
        op.erase()
        return
    positions = (e.wrap(index) * step if step != 1 else e.wrap(index)).value
    start = Emit(e.ip, e.loc).constant(0, ir.IndexType.get()).value
    e.op("vector.scatter", [], [memory, start, positions, mask, value])
    op.erase()


def _combine(op: ir.Operation, memory: ir.Value, step: int) -> None:
    """Lowers a tile.scatter that combines: neighbors as a block, other lanes one after another, since two of them may meet."""
    value, _, index, mask = op.operands
    of, name = ir.VectorType(value.type), ir.StringAttr(op.attributes[COMBINE]).value
    e, scalar = Emit.before(op, value), Emit(ir.InsertionPoint(op), op.location)
    stride = lane_stride(index)
    if stride is not None and stride[1] * step == 1:
        start = scalar.constant(0, ir.IndexType.get())
        for term, factor in stride[0]:
            start = start + scalar.wrap(term) * factor
        if number_of(mask):
            old = e.op("vector.load", [of], [memory, start.value]).result
            e.op("vector.store", [], [_combined(e, name, old, value), memory, start.value])
        else:
            old = e.op("vector.maskedload", [of], [memory, start.value, mask, value]).result
            e.op("vector.maskedstore", [], [memory, start.value, mask, _combined(e, name, old, value)])
        return

    def lane(v: ir.Value, i: int, at: Emit) -> ir.Value:
        """Extracts lane `i`."""
        address = ir.DenseI64ArrayAttr.get([i])
        return at.op("vector.extract", [v.type.element_type], [v], static_position=address).result

    def store(i: int, at: Emit) -> None:
        """Combines lane `i` with its element in memory."""
        address = [memory, (at.wrap(lane(index, i, at)) * step).value]
        old = at.op("memref.load", [of.element_type], address).result
        at.op("memref.store", [], [_combined(at, name, old, lane(value, i, at)), *address])

    def branch(condition: ir.Value, at: Emit, *bodies: Callable[[Emit], None]) -> None:
        """Emits an scf.if with these bodies."""
        branch_op = ir.Operation.create("scf.if", [], [condition], regions=2, loc=op.location, ip=at.ip)
        for region, body in zip(branch_op.regions, bodies, strict=False):
            inner = Emit(ir.InsertionPoint(region.blocks.append()), op.location)
            body(inner)
            inner.op("scf.yield", [], [])

    def every(at: Emit) -> None:
        """Stores all lanes."""
        for i in range(of.shape[0]):
            store(i, at)

    def some(at: Emit) -> None:
        """Stores the lanes that the mask selects."""
        for i in range(of.shape[0]):
            branch(lane(mask, i, at), at, partial(store, i))

    if number_of(mask):
        every(scalar)
    else:
        branch(e.all(e.wrap(mask)).value, scalar, every, some)


def _combined(e: Emit, name: str, old: ir.Value, value: ir.Value) -> ir.Value:
    """Combines two values by an arith op."""
    if name in ("arith.maximumf", "arith.minimumf"):
        return extremum(e.wrap(old), e.wrap(value), name.removeprefix("arith.")).value
    return e.op(name, [value.type], [old, value]).result
