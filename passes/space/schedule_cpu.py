"""Schedules a space on a CPU: the length of its blocks, the axes that a program loops over, and those that make the grid.

Where values are combined with a tensor's elements, no two programs may meet at an element: they take parts of the axes along
which every iteration has elements of its own, such as the rows of a batch and the features of nodes. All other axes, such as the
edges of a graph, a program runs over in full, one iteration after another, so that results do not depend on the number of threads.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lamina.core.sizes import SizeLike, at_most, below, is_symbolic, maximum, minimum, typical, upper_end
from lamina.schedules.base import TILE_SIDE, power_of_two
from lamina.schedules.cpu import (
    LINE,
    REST,
    REST_COLUMNS,
    SCAN_LANES,
    SCATTER_LANES,
    CpuConfig,
    default_schedule,
    transpose_tile_side,
)

from ..ir.affine import Axis
from ..ir.expressions import Apply, Expr, Reduce, walk
from ..trace.costs import COST
from .coalesce import Merged
from .forms import Form, form_of
from .nests import nests_of
from .regions import regions_along
from .scans import has_scans, has_sorts
from .schedule import Schedule, bits, operation_cost
from .space import Space

LEAST = 32  # lanes, at least, of blocks along rows whose length the call decides: fewer are slower for long rows
LEAST_COLUMNS = 64  # the same for blocks across rows
NARROW = 64  # elements of a row, at most, that consists of parts which a block computes one after another
PART = 8  # elements of a part, at most, on average
ELEMENT = 3  # operations that take as long as storing a lane by itself, and loading one


def _per_element(space: Space) -> list[Expr]:
    """Returns the expressions computed for each element, without reductions and the widening of elements to the type of their
    sum."""
    seen, columns = space.expressions, set(space.columns)
    joins = {e.arg for e in seen if isinstance(e, Reduce) and isinstance(e.arg, Apply) and e.arg.op == "arith.extf"}
    return [e for e in seen if not isinstance(e, Reduce) and e not in joins and not (columns and columns.isdisjoint(e.free))]


def _accumulators(space: Space, merged: Merged) -> int:
    """Returns the most reductions that one loop has."""
    return max((len(nest.reductions) for nest in nests_of(space, merged.columns, [])), default=0)


def _extent(vector: Axis, space: Space, merged: Merged) -> int:
    """Returns the elements along the vector axis that blocks are chosen for. Where they depend on the call, these are as many as
    whole blocks find in its longest region typically, but at least some, unless there are never so many."""
    if not is_symbolic(vector.extent):
        return vector.extent
    if merged.columns and vector not in merged.columns:
        return int(min(max(typical(vector.extent), LEAST_COLUMNS), upper_end(vector.extent)))
    regions = regions_along(vector, space, merged.rename)
    extent = max((typical(r.end - r.begin) for r in regions), default=typical(vector.extent))
    return int(min(max(power_of_two(extent + 1) // 2, LEAST), upper_end(vector.extent)))


def schedule_cpu(space: Space, cores: int) -> Schedule:
    """Returns the schedule of a space on a processor with this many cores."""
    form = form_of(space, CpuConfig)
    if space.combined:
        return _combining(space, form, cores)
    merged, vector, crossed = form.merged, form.vector, form.crossed
    if crossed is not None and vector is not None:
        outer = tuple(a for a in merged.rows if a is not vector and a is not crossed)
        config = CpuConfig(lanes=transpose_tile_side(typical(vector.extent)))
        return Schedule(config, merged, vector, outer, crossed, TILE_SIDE, (vector,), crossed)
    if (across := _across_parts(space, form)) is not None:
        return across
    config = _config(space, merged, vector, 0 if form.column_vector else _accumulators(space, merged))
    if vector is not None and form.column_vector and has_scans(space):
        config = CpuConfig(lanes=power_of_two(_extent(vector, space, merged)) if has_sorts(space) else SCAN_LANES)
    elif vector is not None and is_symbolic(vector.extent) and not config.rest_lanes:
        config = replace(config, rest_lanes=REST if form.column_vector or not merged.columns else REST_COLUMNS)
    rows = [a for a in merged.rows if a is not vector] + ([vector] if vector in merged.rows else [])
    elements = math.prod(a.extent for a in merged.columns)
    work = 1 if elements == 0 else maximum(config.work // maximum(elements, 1), 1)
    return _programs(config, merged, vector, rows, work)


def _across_parts(space: Space, form: Form) -> Schedule | None:
    """Returns the schedule of a kernel that writes concatenations of narrow parts, such as stacked values: blocks run across rows,
    and each computes one part at a time. Along a row, a block would compute all parts in all lanes. None for other kernels, and
    where the parts cost less than storing their elements one by one."""
    narrow, merged = form.vector, form.merged
    if narrow is None or merged.columns or is_symbolic(narrow.extent) or narrow.extent > NARROW:
        return None
    rows = [a for a in merged.rows if a is not narrow]
    if not rows or below(rows[-1].extent, LEAST) or operation_cost(space) < ELEMENT * narrow.extent:
        return None
    if PART * len(regions_along(narrow, space, merged.rename, most=NARROW)) < narrow.extent:
        return None
    config = replace(_config(space, merged, rows[-1], 0), lanes=SCATTER_LANES)
    schedule = _programs(config, merged, rows[-1], rows, max(config.work // narrow.extent, 1))
    return replace(schedule, inner=(*schedule.inner, narrow), divided=narrow)


def _config(space: Space, merged: Merged, vector: Axis | None, accumulators: int) -> CpuConfig:
    widest = max((bits(e.dtype) for e in _per_element(space)), default=32)
    extent = _extent(vector, space, merged) if vector else 1
    exact = vector is None or not is_symbolic(vector.extent)
    return default_schedule(operation_cost(space) - _once_a_row(space), widest, extent, accumulators, exact)


def _once_a_row(space: Space) -> int:
    """Returns the operations of `operation_cost` that do not depend on the columns, such as those on the index of a row."""
    if any(r.full for r in space.results):
        return 0
    seen = {e for r in space.reductions for e in walk(r.arg)}
    return sum(COST.get(e.op, 1) for e in seen if isinstance(e, Apply) and e.free.isdisjoint(space.columns))


@dataclass(frozen=True)
class _Combining:
    """The axes of a kernel that combines.

    disjoint        those along which no two iterations meet, without `vector`
    shared          those along which they may, without `vector`
    vector          the axis that blocks run along; None: scalar code
    lanes_disjoint  whether the lanes of a block are neighbors in memory, and thus elements of their own
    """

    disjoint: list[Axis]
    shared: list[Axis]
    vector: Axis | None
    lanes_disjoint: bool


def _axes_of(space: Space, merged: Merged, vector: Axis | None) -> _Combining:
    """Returns the axes of a kernel with results that are combined. vector: the best axis for the loads."""
    own = [a for a in merged.rows if all(part in s.disjoint_axes for s in space.combined for part in merged.parts(a))]
    places = [merged.index(s.offset) for s in space.combined]
    neighbors = next((a for a in reversed(own) if all(index.coefficient(a) == 1 for index in places)), None)
    lanes = vector if neighbors is None else neighbors
    rest = [a for a in merged.rows if a is not lanes]
    return _Combining([a for a in rest if a in own], [a for a in rest if a not in own], lanes, neighbors is not None)


def _columns_of(axes: _Combining, programs: int, cores: int, config: CpuConfig, item: int) -> int:
    """Returns the columns along the vector axis that one program takes, where the rest gives fewer programs than there are cores:
    whole cache lines, since no two cores should write to one. 0: all of them. item: bytes of an element."""
    if axes.vector is None or not axes.lanes_disjoint or not isinstance(axes.vector.extent, int):
        return 0
    line, extent = LINE // item, axes.vector.extent
    work = extent * typical(math.prod(a.extent for a in axes.shared)) // config.work
    pieces = min(-(-cores // programs), extent // line, work)
    return -(-extent // pieces // line) * line if pieces > 1 else 0


def _combining(space: Space, form: Form, cores: int) -> Schedule:
    """Returns the schedule of a kernel that combines values with elements of a tensor."""
    axes = _axes_of(space, form.merged, form.vector)
    config = _config(space, form.merged, axes.vector, 0)
    if not axes.lanes_disjoint:
        config = replace(config, lanes=min(config.lanes, SCATTER_LANES))
    inner = (*axes.shared, *([axes.vector] if axes.vector else []))
    row = typical(math.prod(a.extent for a in inner))
    schedule = _programs(config, form.merged, axes.vector, axes.disjoint, max(config.work // max(row, 1), 1))
    item = max(bits(s.dtype) for s in space.combined) // 8
    columns = _columns_of(axes, max(typical(schedule.grid), 1), cores, config, item)
    if columns and schedule.chunked is None:
        schedule = replace(schedule, chunked=axes.vector, chunk=columns)
    return replace(schedule, inner=(*schedule.inner, *inner))


def _programs(config: CpuConfig, merged: Merged, vector: Axis | None, axes: Sequence[Axis], work: SizeLike) -> Schedule:
    """Returns the schedule by which a program takes `work` iterations of these axes, the innermost last."""
    rows = list(axes)
    inner: list[Axis] = []
    parts: list[tuple[Axis, SizeLike]] = []
    covered: SizeLike = 1
    while rows and (rows[-1] is vector or not at_most(work, covered)):
        a = rows.pop()
        wanted = -(-work // covered)
        if a is vector:
            wanted = -(-wanted // config.lanes) * config.lanes
        if not is_symbolic(a.extent) and not parts and typical(wanted) >= a.extent:
            inner.insert(0, a)
            covered = covered * a.extent
            continue
        parts.insert(0, (a, wanted))
        covered = covered * maximum(minimum(a.extent, wanted), 1)
        if not is_symbolic(a.extent):
            break
    schedule = Schedule(config, merged, vector, tuple(rows), None, 0, tuple(inner), grouped=tuple(parts[:-1]))
    return replace(schedule, chunked=parts[-1][0], chunk=parts[-1][1]) if parts else schedule
