"""Finds the values of a row, or of a block of rows, that are kept in scratch memory from one loop to the next."""

import math
from functools import partial
from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from lamina.core.sizes import SizeLike, at_most, is_symbolic, typical

from ...ir.affine import Affine
from ...ir.axes import linear_position
from ...ir.expressions import Apply, Expr, Load
from ...space.nests import Nest, cost, worth_keeping
from ...space.schedule import Schedule, bits
from .values import element

if TYPE_CHECKING:
    from .blocks import Blocks


Slot = tuple[int, tuple[ir.Value, Affine]]
"""The number of the nest that fills a value's memory, the memory, and the value's index in it."""


def allocate_slots(b: "Blocks", schedule: Schedule, nests: list[Nest]) -> dict[Expr, Slot]:
    """Allocates scratch memory for values that a later nest reads again, and returns where each is kept: as much as is allowed
    where the call decides how many there are (see `emit_fit`)."""
    columns, config = schedule.merged.columns, schedule.config
    if schedule.vector is None or not config.scratch:
        return {}
    at, count = linear_position(columns) * _lanes(schedule), _count(schedule)
    slots = {}
    for e, born in worth_keeping(nests, columns, partial(_pays, b, schedule)).items():
        most = config.scratch * 8 // bits(e.dtype)
        if typical(count) <= most:
            with b.point(0):
                length = most if is_symbolic(count) else count
                type_ = ir.MemRefType.get([length], element("i8" if e.dtype == "i1" else e.dtype))
                slots[e] = born, (memref.AllocaOp(type_, [], [], alignment=64).result, at)
    return slots


def emit_fit(b: "Blocks", schedule: Schedule, kept: dict[Expr, Slot]) -> ir.Value | None:
    """Emits whether scratch memory holds the values of a row; None if it does in any call."""
    count = _count(schedule)
    most = min((schedule.config.scratch * 8 // bits(e.dtype) for e in kept), default=0)
    if not kept or at_most(count, most):
        return None
    with b.point(0):
        return arith.cmpi(arith.CmpIPredicate.sle, b.number(count), b.number(most))


def _lanes(schedule: Schedule) -> int:
    """Returns how many rows a value is kept of."""
    return 1 if schedule.column_vector else schedule.config.lanes


def _count(schedule: Schedule) -> SizeLike:
    """Returns how many elements of a value are kept."""
    return math.prod(a.extent for a in schedule.merged.columns) * _lanes(schedule)


def _pays(b: "Blocks", schedule: Schedule, e: Expr) -> bool:
    """Returns whether a block along a row is worth keeping: it is costly, or gathered and does not stay in registers."""
    merged, axes = schedule.merged, b.axes(e)
    if schedule.vector not in axes or axes.isdisjoint(merged.columns):
        return False
    if isinstance(e, Load):
        several = typical(math.prod(a.extent for a in merged.columns)) > schedule.config.lanes
        return several and not e.offset.opaque and merged.index(e.offset).coefficient(schedule.vector) not in (0, 1)
    return isinstance(e, Apply) and cost(e) >= schedule.config.reuse
