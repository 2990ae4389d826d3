"""Emits loops over rows that start in the middle of an access (schedule.Shift): blocks start where whole accesses do, and masks
say which lanes count."""

from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith

from lamina.core.sizes import at_least, at_most

from ...ir.affine import Axis
from ...ir.reading import number_of
from ...ir.sizes import i64
from .access import ShiftedBlocks
from .scopes import AxisPart, Body

if TYPE_CHECKING:
    from ..loops import Loops
    from .blocks import Blocks


def loop_over_row(loops: "Loops", part: AxisPart, inits: list[ir.Value], body: Body) -> list[ir.Value]:
    """Runs `body` for every block of a row, which is all of an axis: blocks that are whole except for the row's first lanes, then
    the rest."""
    b, lanes, shift, zero = loops.b, loops.schedule.config.lanes, loops.schedule.shift, loops.b.number(0)
    assert shift is not None
    by = b.memoized("shift", 0, lambda: arith.remui(b.index(shift.base), b.number(shift.width)))
    axis, count, exact = part.axis, part.high, part.exact
    b.window = ShiftedBlocks(shift, by, count)
    if exact is None:
        with b.point():
            whole = arith.subi(count, arith.remui(count, b.number(lanes)))
            end = arith.addi(count, b.number(shift.width - 1))
        single = False
    else:
        last = exact + shift.width - 1
        known = 0 if at_most(last, lanes) else exact // lanes * lanes
        whole, end, single = b.number(known), b.number(last), at_most(last - known, lanes)
    if number_of(whole) != 0:
        inits = loops.loop(AxisPart(axis, zero, zero, whole), lanes, None, inits, body)
    out = loops.loop(AxisPart(axis, zero, whole, end), lanes, count, inits, body, single=single)
    b.window = None
    return out


def enter_block(b: "Blocks", window: ShiftedBlocks, axis: Axis, lane: ir.Value, ends: bool) -> None:
    """Sets the mask and the axis of a block.

    lane  the block's first lane, counted from the start of the row's first access
    ends  whether the row may end in the block
    """
    with b.point():
        low = arith.subi(window.shift_lanes, lane)
        high = arith.addi(low, window.count) if ends else b.number(b.lanes)
        first = number_of(lane)
        max_low = 0 if first else window.shift.width - 1
        min_high = b.lanes if not ends else 0 if first is None else max(at_least(axis.extent) - int(first), 0)
        type_ = ir.VectorType.get([b.lanes], ir.IntegerType.get_signless(1))
        attributes = {"max_low": i64(max_low), "min_high": i64(min_high)}
        b.stack[-1].mask = b.memoized(
            "mask", -1,
            lambda: ir.Operation.create("tile.window", results=[type_], operands=[low, high], attributes=attributes).results[0],
        )  # fmt: skip
        b.bind(axis, arith.subi(lane, window.shift_lanes))
