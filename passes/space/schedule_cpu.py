"""Schedules a space on a CPU: the length of its blocks, the axes that a program loops over, and those that make the grid."""

import math

from lamina.core.sizes import SizeLike, is_symbolic, most, typical
from lamina.schedules.base import TILE_SIDE
from lamina.schedules.cpu import SCAN_LANES, CpuConfig, choose, side

from ..ir.affine import Axis
from ..ir.expressions import Apply, Expr, Reduce
from .coalesce import Merged
from .forms import form_of
from .nests import nests_of
from .scans import has_scans
from .schedule import Schedule, bits, operations
from .space import Space

LEAST = 64  # elements along the vector axis that blocks are chosen for, at least, where the number depends on the call


def _per_element(space: Space) -> list[Expr]:
    """Returns the expressions computed for each element, without reductions and the widening of elements to the type of their
    sum."""
    seen, columns = space.expressions, set(space.columns)
    joins = {e.arg for e in seen if isinstance(e, Reduce) and isinstance(e.arg, Apply) and e.arg.op == "arith.extf"}
    return [e for e in seen if not isinstance(e, Reduce) and e not in joins and not (columns and columns.isdisjoint(e.free))]


def _accumulators(space: Space, merged: Merged) -> int:
    """Returns the most reductions that one loop has."""
    return max((len(nest.reductions) for nest in nests_of(space, merged.columns, [])), default=0)


def _extent(vector: Axis) -> int:
    """Returns the elements along the vector axis that blocks are chosen for: at least some, where they depend on the call."""
    return max(typical(vector.extent), LEAST) if is_symbolic(vector.extent) else vector.extent


def schedule_cpu(space: Space) -> Schedule:
    """Returns the schedule of a space."""
    form = form_of(space, CpuConfig)
    merged, vector, crossed = form.merged, form.vector, form.crossed
    if crossed is not None and vector is not None:
        outer = tuple(a for a in merged.rows if a is not vector and a is not crossed)
        return Schedule(
            CpuConfig(lanes=side(typical(vector.extent))), merged, vector, outer, crossed, TILE_SIDE, (vector,), crossed
        )
    widest = max((bits(e.dtype) for e in _per_element(space)), default=32)
    extent = _extent(vector) if vector else 1
    config = choose(operations(space), widest, extent, 0 if form.column_vector else _accumulators(space, merged))
    if form.column_vector and has_scans(space):
        config = CpuConfig(lanes=SCAN_LANES)
    rows = [a for a in merged.rows if a is not vector] + ([vector] if vector in merged.rows else [])
    elements = math.prod(a.extent for a in merged.columns)
    work = 1 if elements == 0 else most(config.work // most(elements, 1), 1)
    inner: list[Axis] = []
    covered: SizeLike = 1
    chunked: Axis | None = None
    chunk: SizeLike = 0
    while rows:
        a = rows.pop()
        wanted = -(-work // covered)
        if a is vector:
            wanted = -(-wanted // config.lanes) * config.lanes
        if typical(wanted) >= typical(a.extent) and not is_symbolic(a.extent):
            inner.insert(0, a)
            covered = covered * a.extent
            continue
        if is_symbolic(wanted) or wanted > 1:
            chunked, chunk = a, wanted
        else:
            rows.append(a)
        break
    return Schedule(config, merged, vector, tuple(rows), chunked, chunk, tuple(inner))
