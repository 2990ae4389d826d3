"""Finds the values of a row, or of a block of rows, that are kept in scratch memory from one loop to the next."""

import math
from functools import partial
from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import memref

from lamina.core.sizes import is_symbolic, typical

from ...ir.affine import Affine
from ...ir.axes import linear
from ...ir.expressions import Apply, Expr, Load
from ...space.nests import Nest, cost, worth_keeping
from ...space.schedule import Schedule, bits
from .scopes import element

if TYPE_CHECKING:
    from .blocks import Blocks


def slots(b: "Blocks", plan: Schedule, nests: list[Nest]) -> dict[Expr, tuple[int, tuple[ir.Value, Affine]]]:
    """Allocates scratch memory for values that a later nest reads again.

    Returns for each value the number of the nest that fills its memory, the memory, and the value's index in it.
    """
    columns, config = plan.merged.columns, plan.config
    if plan.vector is None or not config.scratch or is_symbolic(tuple(a.extent for a in columns)):
        return {}
    wide = 1 if plan.column_vector else config.lanes
    at, count = linear(columns) * wide, math.prod(a.extent for a in columns) * wide
    out = {}
    for e, born in worth_keeping(nests, columns, partial(_pays, b, plan)).items():
        if count * bits(e.dtype) // 8 <= config.scratch:
            with b.point(0):
                type_ = ir.MemRefType.get([count], element("i8" if e.dtype == "i1" else e.dtype))
                out[e] = born, (memref.AllocaOp(type_, [], [], alignment=64).result, at)
    return out


def _pays(b: "Blocks", plan: Schedule, e: Expr) -> bool:
    """Returns whether a block along a row is worth keeping: it is costly, or gathered and does not stay in registers."""
    merged, axes = plan.merged, b.axes(e)
    if plan.vector not in axes or axes.isdisjoint(merged.columns):
        return False
    if isinstance(e, Load):
        several = typical(math.prod(a.extent for a in merged.columns)) > plan.config.lanes
        return several and not e.at.opaque and e.at.rename(merged.rename).coefficient(plan.vector) not in (0, 1)
    return isinstance(e, Apply) and cost(e) >= plan.config.reuse
