"""Lowers tile.scatter: stores lane by lane, or combines lanes with elements in memory, which no other program changes meanwhile."""

from collections.abc import Callable, Sequence
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
    linear = lane_stride(index)
    if linear is not None and linear[1] * step == 1:
        _combine_block(op, memory, linear[0])
        return
    lanes = _Lanes(op, memory, step)
    scalar = Emit(ir.InsertionPoint(op), op.location)
    if number_of(mask):
        lanes.combine_all(scalar)
    else:
        e = Emit.before(op, value)
        lanes.branch(e.all(e.wrap(mask)).value, scalar, lanes.combine_all, lanes.combine_masked)


def _combine_block(op: ir.Operation, memory: ir.Value, terms: Sequence[tuple[ir.Value, int]]) -> None:
    """Combines a block with contiguous elements, from the sum of value * factor over `terms` on."""
    value, _, _, mask = op.operands
    type_, name = ir.VectorType(value.type), ir.StringAttr(op.attributes[COMBINE]).value
    e, scalar = Emit.before(op, value), Emit(ir.InsertionPoint(op), op.location)
    start = scalar.constant(0, ir.IndexType.get())
    for term, factor in terms:
        start = start + scalar.wrap(term) * factor
    if number_of(mask):
        old = e.op("vector.load", [type_], [memory, start.value]).result
        e.op("vector.store", [], [_combined(e, name, old, value), memory, start.value])
    else:
        old = e.op("vector.maskedload", [type_], [memory, start.value, mask, value]).result
        e.op("vector.maskedstore", [], [memory, start.value, mask, _combined(e, name, old, value)])


class _Lanes:
    """Combines the lanes of a tile.scatter with elements in memory, one after another."""

    def __init__(self, op: ir.Operation, memory: ir.Value, step: int) -> None:
        self.op, self.memory, self.step = op, memory, step
        self.value, _, self.index, self.mask = op.operands
        self.type, self.name = ir.VectorType(self.value.type), ir.StringAttr(op.attributes[COMBINE]).value

    def combine_all(self, e: Emit) -> None:
        """Combines all lanes."""
        for i in range(self.type.shape[0]):
            self._combine(i, e)

    def combine_masked(self, e: Emit) -> None:
        """Combines the lanes that the mask selects, each under a branch."""
        for i in range(self.type.shape[0]):
            self.branch(_lane(self.mask, i, e), e, partial(self._combine, i))

    def branch(self, condition: ir.Value, e: Emit, *bodies: Callable[[Emit], None]) -> None:
        """Emits an scf.if with these bodies: one, or one for each case."""
        branch = ir.Operation.create("scf.if", [], [condition], regions=2, loc=self.op.location, ip=e.ip)
        for region, body in zip(branch.regions, bodies, strict=False):
            inner = Emit(ir.InsertionPoint(region.blocks.append()), self.op.location)
            body(inner)
            inner.op("scf.yield", [], [])

    def _combine(self, i: int, e: Emit) -> None:
        address = [self.memory, (e.wrap(_lane(self.index, i, e)) * self.step).value]
        old = e.op("memref.load", [self.type.element_type], address).result
        e.op("memref.store", [], [_combined(e, self.name, old, _lane(self.value, i, e)), *address])


def _lane(vector: ir.Value, i: int, e: Emit) -> ir.Value:
    """Extracts lane `i`."""
    position = ir.DenseI64ArrayAttr.get([i])
    return e.op("vector.extract", [vector.type.element_type], [vector], static_position=position).result


def _combined(e: Emit, name: str, old: ir.Value, value: ir.Value) -> ir.Value:
    """Combines two values by an arith op."""
    if name in ("arith.maximumf", "arith.minimumf"):
        return extremum(e.wrap(old), e.wrap(value), name.removeprefix("arith.")).value
    return e.op(name, [value.type], [old, value]).result
