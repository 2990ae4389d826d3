"""Emits what follows the reductions of short rows for a block of rows at a time.

A row's result is a scalar, and so is everything that is computed from it: an exponential of it costs as much as those of a whole
block of lanes. Where rows are so short that this counts, a loop first stores the sums of several rows in scratch memory. A second
one computes the results of these rows, one in each lane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from lamina.core.sizes import is_symbolic
from lamina.core.walks import reachable

from ..ir.affine import Affine, Axis
from ..ir.expressions import Expr, Reduce, Scan
from ..space.nests import cost
from ..trace.stored import Pair
from .emit.values import element

if TYPE_CHECKING:
    from .loops import Loops

ROWS = 64  # of a block: their sums stay in the nearest cache
LANES = 16  # rows whose results are computed at a time: a vector of f32
COSTLY = 8  # operations on a row's sums from which on they take longer than storing and loading these


def blocked_axis(loops: Loops) -> Axis | None:
    """Returns the axis of rows whose results are computed in blocks: the innermost one, if results are neighbors along it; None if
    every row computes its own."""
    schedule, merged = loops.schedule, loops.schedule.merged
    axes = loops.row_axes
    if not schedule.config.row_blocks or not schedule.column_vector or schedule.shift is not None or not axes:
        return None
    axis, last = axes[-1], [r for r, _ in loops.results]
    count = dict(schedule.grid_axes).get(axis, axis.extent)
    if is_symbolic(count) or count < LANES or any(r.full or isinstance(r.expr, Pair | Scan) for r in last):
        return None
    costs = sum(0 if isinstance(r.expr, Reduce) else cost(r.expr) for r in last)
    if costs < COSTLY or any(merged.index(r.offset).coefficient(axis) != 1 for r in last):
        return None
    return axis


def emit_blocks(loops: Loops, axis: Axis, first: ir.Value, count: ir.Value, exact: int | None) -> None:
    """Emits `count` rows along an axis from `first` on. exact: the count, where it is a constant."""
    b = loops.b
    base = Axis(axis.extent, "base")
    sums = list(dict.fromkeys(e for r, _ in loops.results for e in _sums(r.expr)))
    with b.point(0):
        scratch = {e: memref.AllocaOp(ir.MemRefType.get([ROWS], element(e.dtype)), [], [], alignment=64).result for e in sums}
    at = Affine.of(axis) + Affine.of(base, -1)

    def row(_: list[ir.Value]) -> list[ir.Value]:
        """Emits the sums of one row."""
        loops.reduce()
        for e, memory in scratch.items():
            value = b.value(e)
            with b.point():
                memref.store(value, memory, [b.index(at)])
        b.kept = {}
        return []

    def results(_: list[ir.Value]) -> list[ir.Value]:
        """Emits the results of a block of rows."""
        b.kept = {e: (memory, at) for e, memory in scratch.items()}
        loops.store_rows()
        b.kept = {}
        return []

    def block(start: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        """Emits a block of rows."""
        with b.point():
            begin = arith.addi(first, start)
            b.bind(base, begin)
            rows = (
                b.number(ROWS) if exact is not None and exact % ROWS == 0 else arith.minui(arith.subi(count, start), b.number(ROWS))
            )
        part = b.part(axis, begin, rows)
        loops.loop(part, 1, None, [], row)
        with b.narrower(LANES):
            b.vector = axis
            loops.loop(part, LANES, None if exact is not None and exact % LANES == 0 else rows, [], results)
        return []

    b.loop(b.number(0), count, ROWS, [], block)


def _sums(e: Expr) -> list[Reduce]:
    """Returns the reductions that an expression is computed from, without those inside of others."""
    return [x for x in reachable([e], lambda x: () if isinstance(x, Reduce) else x.args) if isinstance(x, Reduce)]
