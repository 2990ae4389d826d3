"""Cascaded summation: cuts a long sum into short runs, whose sums are added up in a wider type where the target has one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from lamina.core.sizes import is_symbolic, typical

from ..ir.affine import Axis
from ..ir.expressions import Reduce
from ..space.nests import Nest
from .covering import first_lanes, narrow_lanes, narrow_rest
from .emit.scopes import AxisPart, Body
from .emit.values import block_shape

if TYPE_CHECKING:
    from .accumulators import Accumulators
    from .loops import Loops

RUN = 16  # iterations summed in the operand's own type, where sums of runs are of a wider type
PLAIN_RUN = 32  # likewise, where they are not


@dataclass(frozen=True)
class CascadeCut:
    """The place where a loop nest is cut into runs.

    axis   the loop that is cut: it and the loops inside it make a run
    count  its iterations in a run
    """

    axis: Axis
    count: int


def find_cascade(loops: Loops, nest: Nest, axes: Sequence[Axis], shared: Axis | None) -> CascadeCut | None:
    """Returns where the loops of a nest, given outermost first, are cut into runs; None if they are one run. shared: the loop
    that teams of threads share, which is not cut: each team starts sums of its own in it."""
    config, vector = loops.schedule.config, loops.b.vector
    if nest.scans or nest.online or not any(r.op == "arith.addf" for r in nest.reductions):
        return None
    run = RUN if config.wide_sums else PLAIN_RUN
    inner = 1
    for a in reversed(axes):
        trips = typical(a.extent // config.lanes if a is vector else a.extent)
        trips = max(trips, 2 * run) if is_symbolic(a.extent) else trips  # sums may be long at other sizes
        if a is not shared and inner * trips >= 2 * run and (config.wide_sums or a is not vector):
            return CascadeCut(a, max(run // inner, 1))
        inner *= max(trips, 1)
    return None


def cascade(loops: Loops, cut: CascadeCut, nest: Nest, inits: list[ir.Value], body: Body) -> list[ir.Value]:
    """Emits the loop of `cut` as a loop over runs. inits: sums of the runs so far. The error grows with the length of a run and
    with the number of runs, not with their product; where sums of runs are of a wider type, not with the number of runs either."""
    b, sums, axis = loops.b, loops.sums, cut.axis
    step = loops.schedule.config.lanes if axis is b.vector else 1
    whole = axis.extent // step * step
    zero, length = b.number(0), b.number(cut.count * step)
    neutrals = [sums.neutral(r) for r in nest.reductions]

    def run(first: ir.Value, totals: list[ir.Value]) -> list[ir.Value]:
        """Adds up one run from zero, and adds it to the totals."""
        b.stack[-1].mask = b.stack[-2].mask
        count = length
        if whole % (cut.count * step):
            with b.point():
                count = arith.minui(arith.subi(b.number(whole), first), length)
        parts = loops.loop(AxisPart(axis, first, zero, count), step, None, neutrals, body)
        return [sums.joined(r, total, part) for r, total, part in zip(nest.reductions, totals, parts, strict=True)]

    totals = b.loop(zero, b.number(whole), length, inits, run)
    if whole == axis.extent:
        return totals
    rest = AxisPart(axis, zero, b.number(whole), b.number(axis.extent), axis.extent)
    if not is_symbolic(whole):
        tail = axis.extent - whole if isinstance(axis.extent, int) else rest.high
        parts = loops.loop(rest, step, tail, neutrals, body, single=True)
    elif axis is b.vector and (lanes := narrow_lanes(loops.schedule)):
        with b.narrower(lanes):
            parts = narrow_rest(loops, rest, [sums.neutral(r) for r in nest.reductions], body)
    else:
        parts = loops.loop(rest, step, rest.high, neutrals, body)
    with b.point():
        return [_with_rest(sums, r, total, part) for r, total, part in zip(nest.reductions, totals, parts, strict=True)]


def _with_rest(sums: Accumulators, r: Reduce, total: ir.Value, part: ir.Value) -> ir.Value:
    """Adds the sum of the rest to the total, to its first lanes where it has fewer."""
    if (lanes := block_shape(part)) == block_shape(total):
        return sums.joined(r, total, part)
    return vector.insert_strided_slice(sums.joined(r, first_lanes(total, *lanes), part), total, [0], [1])
