"""Decides the form of a kernel's loops, for every target: which axes become one, which axis is vectorized, and which axis the tiles
of a transpose span with it.

Targets differ only in data of their Config (schedules/base.py). The target's own module (`schedule_cpu`, `schedule_gpu`) then
derives the lengths of blocks and the grid from the form.
"""

import math
from collections import Counter
from dataclasses import dataclass

from lamina.core.sizes import SizeLike, at_most, below, is_symbolic, typical
from lamina.schedules.base import TILE_SIDE, BlockConfig

from ..ir.affine import Affine, Axis
from ..ir.expressions import Load
from .coalesce import Merged, coalesce
from .flatten import flatten
from .scans import has_scans, has_sorts, scanned_axis
from .schedule import Schedule
from .space import Space

FEW = 8  # elements: blocks and tiles along a shorter axis are mostly empty
FEW_COLUMNS = 128  # neighboring elements: reductions down fewer columns read too little of each memory page or row
SECTOR = 8  # f32 elements: the unit in which memory is read


@dataclass(frozen=True)
class Form:
    """The form of a kernel's loops.

    merged   the axes, after coalescing and flattening
    vector   the axis that blocks run along; None: scalar code
    crossed  if transposing through tiles is worth it, the other axis of a tile: the one that loads are contiguous along that have a
             stride along the vector axis
    """

    merged: Merged
    vector: Axis | None
    crossed: Axis | None

    @property
    def column_vector(self) -> bool:
        """Whether blocks run along a reduced axis."""
        return self.vector in self.merged.columns


def form_of(space: Space, config: type[BlockConfig]) -> Form:
    """Returns the form of a space's loops on the target of this Config, in four steps:

    1. Coalesce axes. Row axes along which memory is contiguous are flattened into one, and so are the columns of a sort.
    2. Choose the vector axis: the axis of a scan or sort, else the one along which accesses are most contiguous.
    3. Choose the crossed axis of a transpose, if tiles are worth it.
    4. If blocks along the vector axis would be short, flatten it with its neighbors: with all columns, or with the next row axis.
    """
    merged = coalesce(*_by_stride(space), space.places(), space.lengths)
    if config.short_row and space.columns and not has_scans(space):
        merged, _ = flattened(space, merged, side_by_side(space, merged)) or (merged, None)
    if has_sorts(space):
        merged, _ = flattened(space, merged, merged.columns) or (merged, None)
    vector = scanned_axis(space, merged)
    if vector is None or (below(vector.extent, config.least_scan) and not has_sorts(space)):
        vector = _vector_axis(space, merged)
    merged, crossed = _crossed(space, merged, vector, config.edge_loops)
    if vector is not None and config.short_row:
        neighbors = _neighbors_of_short(space, merged, vector, crossed, config.short_row)
        merged, vector = flattened(space, merged, neighbors) or (merged, vector)
    return Form(merged, vector, crossed)


def _neighbors_of_short(space: Space, merged: Merged, vector: Axis, crossed: Axis | None, short: int) -> tuple[Axis, ...]:
    """Returns the axes to flatten into one because blocks along the vector axis alone would be short: all columns if it is the
    innermost of them, or, where nothing is reduced or transposed, the axis and the row axis outside of it; else ()."""
    if vector in merged.columns:
        return merged.columns if vector is merged.columns[-1] and not has_scans(space) else ()
    if space.columns or crossed is not None or not below(vector.extent, short):
        return ()
    return (*[a for a in merged.rows if a is not vector][-1:], vector)


def flattened(space: Space, merged: Merged, axes: tuple[Axis, ...]) -> tuple[Merged, Axis] | None:
    """Returns `merged` with `axes` flattened into one axis, and that axis; None if there are fewer than two, or if lanes would have
    to be divided by a symbolic size."""
    if len(axes) < 2:
        return None
    flat, axis = flatten(merged, axes)
    places = [flat.index(index) for index in space.places()]
    divisors = [flat.quotients[t] for index in places for t, _ in index.terms if t in flat.quotients]
    return None if is_symbolic(divisors) else (flat, axis)


def side_by_side(space: Space, merged: Merged) -> tuple[Axis, ...]:
    """Returns the innermost axes of rows along which memory is contiguous, until they have FEW_COLUMNS elements; () if there are
    none.

    It must be contiguous in the results, and in all tensors that are read down the columns or, without columns, along the innermost
    row axis. Other tensors, such as a value for each group of channels, may be read in jumps.
    """
    loads = [merged.index(e.offset) for e in space.loads]
    read = [index for index in loads if any(index.coefficient(a) for a in merged.columns or merged.rows[-1:])]
    if not read or any(index.opaque or 1 in (index.coefficient(c) for c in merged.columns) for index in read):
        return ()
    varying = [*read, *(merged.index(r.offset) for r in space.results)]
    found: list[Axis] = []
    step: SizeLike = 1
    for a in reversed(merged.rows):
        if not below(step, FEW_COLUMNS) or any(index.coefficient(a) != step for index in varying):
            break
        found, step = [a, *found], step * a.extent
    return tuple(found)


def _with_outer(space: Space, merged: Merged, axis: Axis) -> tuple[Axis, ...]:
    """Returns a row axis with the one outside of it, if every access that varies along the axis has a single stride over both; else
    ()."""
    position = merged.rows.index(axis)
    varying = [index for place in space.places() if (index := merged.index(place)).coefficient(axis)]
    outer = merged.rows[position - 1] if position else None
    if outer is None or any(index.opaque or index.coefficient(outer) != index.coefficient(axis) * axis.extent for index in varying):
        return ()
    return outer, axis


def _by_stride(space: Space) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """Returns rows and columns from the largest stride to the smallest: the stride in results or, if that is 0, in loads."""
    loads = [e.offset for e in space.loads]
    stores = [r.offset for r in space.results]

    def largest_stride(a: Axis) -> int:
        """Returns the largest stride of an axis in the stores, else in the loads."""
        return max((abs(typical(index.coefficient(a))) for index in stores), default=0) or max(
            (abs(typical(index.coefficient(a))) for index in loads), default=0
        )

    return tuple(sorted(space.rows, key=largest_stride, reverse=True)), tuple(
        sorted(space.columns, key=largest_stride, reverse=True)
    )


def _vector_axis(space: Space, merged: Merged) -> Axis | None:
    """Returns the axis to vectorize: the one along which loads and stores are most contiguous. None if there is no axis.

    Stores count twice. If possible, it is an axis along which all stores have stride 0 or 1, since others are scattered. A strided
    load counts as often as it is executed, even if it reads the same memory again: its lanes are read one by one, or by a warp in
    as many requests, which a cache serves no faster.
    """
    loads = [merged.index(e.offset) for e in space.loads]
    stores = [merged.index(r.offset) for r in space.results]
    columns = () if has_scans(space) else merged.columns  # steps along a scanned column depend on each other
    candidates = [*reversed(columns), *reversed(merged.rows)]

    rows = typical(math.prod(a.extent for a in merged.rows))
    total = typical(math.prod(a.extent for a in (*merged.rows, *merged.columns)))

    def score(a: Axis) -> float:
        """Returns how well accesses use the memory that they fetch, if `a` is the vector axis; more is better."""

        def score_of_access(index: Affine, weight: float) -> float:
            """Returns the score of one access of weight `weight`."""
            stride = abs(typical(index.coefficient(a))) if _is_affine(index, merged, a) else SECTOR
            axes = {x for t, _ in index.terms for x in ((t,) if isinstance(t, Axis) else merged.merged(t.free))}
            if weight == 1 and stride > 1:
                touched = rows if axes.isdisjoint(merged.columns) else total
            else:
                touched = typical(math.prod(x.extent for x in axes))  # a row result is stored rarely
            # share used of the memory fetched for neighbors; with stride 0 one element serves them all
            share = 1 / min(stride, SECTOR) if stride else 0.625
            return weight * (2 * share - 1) * touched / max(total, 1)

        return (
            sum(score_of_access(index, 1) for index in loads)
            + sum(score_of_access(index, 2) for index in stores)
            - (2 if below(a.extent, FEW) else 0)
        )

    best = max(candidates, key=score, default=None)
    if best is not None and any(index.coefficient(best) not in (0, 1) for index in stores):
        usable = [a for a in candidates if all(index.coefficient(a) in (0, 1) for index in stores)]
        best = max(usable, key=score, default=best)
    return best


def _crossed(space: Space, merged: Merged, vector: Axis | None, edge_loops: bool) -> tuple[Merged, Axis | None]:
    """Returns the axes, and the result of `_crossed_axis`. As tiles along a short axis would be mostly empty, that is flattened
    with the axis outside of it if possible."""
    found = _crossed_axis(space, merged, vector, edge_loops)
    if found is not None and not below(found.extent, TILE_SIDE):
        return merged, found
    for axis in (a for a in merged.rows if a is not vector and below(a.extent, TILE_SIDE)):
        flat = flattened(space, merged, _with_outer(space, merged, axis))
        if flat is not None and _crossed_axis(space, flat[0], vector, edge_loops) is flat[1]:
            return flat
    return merged, found


def _crossed_axis(space: Space, merged: Merged, vector: Axis | None, edge_loops: bool) -> Axis | None:
    """Returns the row axis along which most of the elements are contiguous that are loaded with a stride along `vector`; None if
    there are none, or if transposing tiles is not worth it."""
    if vector is None or merged.columns or below(vector.extent, FEW):
        return None
    along: Counter[Axis] = Counter()
    for e in space.loads:
        index = merged.index(e.offset)
        inner = (a for a in merged.rows if a is not vector and not below(a.extent, FEW) and _is_contiguous(index, merged, a))
        if crosses(e, index, merged, vector, edge_loops) and (axis := next(inner, None)) is not None:
            along[axis] += typical(math.prod(t.extent for t, _ in index.terms if isinstance(t, Axis)))
    return max(along, key=along.__getitem__, default=None)


def crossing_loads(space: Space, schedule: Schedule) -> list[Load]:
    """Returns the loads that a program with a crossed axis transposes through tiles."""
    found, merged = [], schedule.merged
    for e in space.loads:
        index = merged.index(e.offset)
        vector, crossed = schedule.vector, schedule.crossed
        if vector is None or crossed is None:
            continue
        if crosses(e, index, merged, vector, schedule.config.edge_loops) and _is_contiguous(index, merged, crossed):
            found.append(e)
    return found


def _is_contiguous(index: Affine, merged: Merged, axis: Axis) -> bool:
    """Returns whether neighbors along an axis are neighbors in memory."""
    return index.coefficient(axis) == 1 and _is_affine(index, merged, axis)


def _is_affine(index: Affine, merged: Merged, axis: Axis) -> bool:
    """Returns whether no run-time index in `index` varies over an axis."""
    return all(isinstance(t, Axis) or axis not in merged.merged(t.free) for t, _ in index.terms)


def crosses(e: Load, index: Affine, merged: Merged, vector: Axis, edge_loops: bool) -> bool:
    """Returns whether a tile may transpose a load: it has a stride along `vector` in its `index`, and its guard is at most a
    range of that axis. Unless tiles may cover part of the axis (`edge_loops`), the range must begin at 0."""
    alone = index.coefficient(vector) in (0, 1) or not _is_affine(index, merged, vector)
    inside = None if alone else guarded_range(e, merged, vector)
    return inside is not None and (edge_loops or inside[0] == 0)


def guarded_range(e: Load, merged: Merged, axis: Axis) -> tuple[SizeLike, SizeLike] | None:
    """Returns the range (first, end) of an axis in which a load's guard holds; None if the guard depends on anything else."""
    first, end = 0, axis.extent
    for bound in e.guard:
        index = merged.index(bound.index)
        if bound.message or index.terms != ((axis, 1),):
            return None
        low, high = bound.low - index.constant, bound.high - index.constant
        first, end = (low if at_most(first, low) else first), (high if at_most(high, end) else end)
        if not (at_most(low, first) and at_most(end, high) and below(first, end)):
            return None
    return first, end
