"""Emits loops over rows that start in the middle of an access (schedule.Shift): blocks start where whole accesses do, and masks
say which lanes count."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith

from lamina.core.sizes import at_least, at_most, is_symbolic

from ...ir.affine import Axis
from ...ir.reading import number_of
from ...ir.sizes import i64
from ...space.schedule import Shift
from .access import ShiftedBlocks

if TYPE_CHECKING:
    from ..loops import Loops
    from .blocks import Blocks


def over(
    loops: "Loops", axis: Axis, shift: Shift, inits: list[ir.Value], body: Callable[[list[ir.Value]], list[ir.Value]]
) -> list[ir.Value]:
    """Runs `body` for every block of a row along `axis`: blocks whole but for the row's first lanes, then the rest."""
    b, lanes = loops.b, loops.schedule.config.lanes
    by = b.memoized("shift", 0, lambda: arith.remui(b.index(shift.base), b.number(shift.width)))
    b.window = ShiftedBlocks(shift, by)
    zero, whole, end = b.number(0), axis.extent // lanes * lanes, axis.extent + shift.width - 1
    if at_most(end, lanes):
        whole = 0
    elif whole != 0:
        inits = loops.loop(axis, zero, zero, b.number(whole), lanes, None, inits, body)
    left, rest = axis.extent - whole, at_most(end - whole, lanes)
    tail = b.number(left) if is_symbolic(left) else left
    out = loops.loop(axis, zero, b.number(whole), b.number(end), lanes, tail, inits, body, single=rest)
    b.window = None
    return out


def enter(b: "Blocks", window: ShiftedBlocks, axis: Axis, at: ir.Value, left: int | ir.Value | None) -> None:
    """Sets the mask and the axis of a block whose first lane is `at` lanes after the start of the row's first access. left: the
    lanes left over; None where the row goes on."""
    with b.point():
        low = arith.subi(window.by, at)
        high = b.number(b.lanes) if left is None else arith.addi(low, b.number(axis.extent))
        first = number_of(at)
        most = 0 if first else window.shift.width - 1
        least = b.lanes if left is None else 0 if first is None else max(at_least(axis.extent) - int(first), 0)
        type_ = ir.VectorType.get([b.lanes], ir.IntegerType.get_signless(1))
        attributes = {"most": i64(most), "least": i64(least)}
        b.stack[-1].mask = b.memoized(
            "mask", -1,
            lambda: ir.Operation.create("tile.window", results=[type_], operands=[low, high], attributes=attributes).results[0],
        )  # fmt: skip
        b.bind(axis, arith.subi(at, window.by))
