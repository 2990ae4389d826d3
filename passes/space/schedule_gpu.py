"""Schedules a space on a GPU: how its blocks are spread over threads, how wide their accesses are, and what makes the grid."""

import math
from dataclasses import dataclass, replace
from functools import partial

from lamina.core.gpu import Gpu
from lamina.core.sizes import SizeLike, is_bounded, is_symbolic, typical, upper_end
from lamina.schedules import narrow, nvvm
from lamina.schedules.base import TILE_SIDE
from lamina.schedules.nvvm_rows import WALK_THREADS, RowKernel, in_teams, row_reduction, row_sort, row_walk
from lamina.schedules.rows import CLUSTER, Rows, Triton

from ..ir.affine import Axis
from ..ir.expressions import Load
from .coalesce import Merged
from .contraction import Unfit
from .forms import flattened, form_of, side_by_side
from .nests import nests_of
from .regions import part_extent
from .scans import has_scans, has_sorts
from .schedule import Schedule, bits
from .space import Space
from .vector_width import (
    Access,
    Aligned,
    access_width,
    accesses_of,
    bounded_across,
    flat_width,
    may_cut_last_access,
    shift_of,
    split_width,
    traffic_of,
    uncrossed_width,
    unstrided_width,
    whole_inputs,
)


@dataclass(frozen=True)
class _Along:
    """A space whose blocks run along one axis.

    merged    its axes: neighbors are one where all accesses step through them as one
    vector    the axis that blocks run along
    vec       elements of one memory access along it
    accesses  its loads and stores
    aligned   bytes that the memory of each argument is aligned to
    """

    space: Space
    merged: Merged
    vector: Axis
    vec: int
    accesses: list[Access]
    aligned: Aligned
    device: Gpu

    @property
    def extent(self) -> int:
        """The typical length of the axis."""
        return typical(self.vector.extent)

    @property
    def others(self) -> SizeLike:
        """Iterations of all other axes of rows together."""
        return math.prod(a.extent for a in self.merged.rows if a is not self.vector)

    @property
    def rows(self) -> int:
        """How many rows there are. Where a call decides, and there may be any number, at least as many as keep a GPU busy: with
        more threads to a row, calls with thousands of rows take up to half as long again, while those with few hardly gain. The
        parts of a sum are never so many, but more than the one that a small call has."""
        if not is_symbolic(self.others):
            return typical(self.others)
        many = min(nvvm.PARTS, upper_end(self.others)) if is_bounded(self.others) else nvvm.BUSY * self.device.sm_count
        return max(typical(self.others), int(many))

    @property
    def split_vec(self) -> int:
        """Elements of one access, where loads that are not whole accesses may be read element by element."""
        return max(self.vec, split_width(self.space, self.accesses, self.vector, self.merged.quotients))

    @property
    def ctas(self) -> int:
        """CTAs that may share a row: those of a portable cluster, where a row is contiguous in memory."""
        return CLUSTER if self.device.capability >= 90 and len(self.merged.columns) == 1 else 1


def schedule_gpu(space: Space, aligned: Aligned, results: list[int], device: Gpu, chosen: Rows | None) -> Schedule:
    """Returns the schedule of a space.

    aligned  bytes that the memory of each argument is aligned to
    results  bytes that the memory of each result is aligned to
    chosen   a schedule of row reductions that replaces the cost model's choice

    Raises Unfit if `chosen` is given for a space that does not reduce rows, or asks for clusters that the GPU lacks.
    """
    form = form_of(space, nvvm.NvvmConfig)
    merged, vector, crossed = form.merged, form.vector, form.crossed
    if chosen is not None and not form.column_vector:
        raise Unfit(f"{chosen} is for programs that reduce rows")
    if vector is None:
        return Schedule(nvvm.scalar_schedule(), merged, None, merged.rows, None, 0, ())
    across = partial(bounded_across, merged=merged, vector=vector) if space.columns else lambda _: False
    accesses = accesses_of(space, merged, aligned, results, across)
    alone = not space.columns and crossed is None and merged.rows == (vector,) and may_cut_last_access(vector)
    vec = 1 if has_scans(space) and vector not in merged.columns else access_width(accesses, vector, merged.quotients, alone)
    along = _Along(space, merged, vector, vec, accesses, aligned, device)
    if vector in merged.columns:
        return _of_rows(along, chosen)
    by_parts, tall = False, TILE_SIDE
    if crossed is not None:
        config, tall = _transpose_tiles(along, crossed)
    elif has_scans(space):
        config = nvvm.column_scan(along.extent)
    elif space.columns:
        config = _of_columns(along)
    else:
        if len(merged.rows) > 1 and vector is merged.rows[-1]:
            along = _flattened(along, results) or along
        config = _pointwise(along)[0]
        of_part = nvvm.of_part(config, *part_extent(space, along.merged, along.vector))
        by_parts, config = of_part is not None, of_part or config
    merged, vector = along.merged, along.vector
    outer = tuple(a for a in merged.rows if a is not vector and a is not crossed)
    return Schedule(config, merged, vector, outer, vector, config.lanes, (), crossed, by_parts=by_parts, tall=tall)


def _transpose_tiles(along: _Along, crossed: Axis) -> tuple[nvvm.NvvmConfig, int]:
    """Returns the schedule of a transpose, and the rows of a tile. What a call decides may be long on either side."""
    lanes, rows = (max(typical(a.extent), TILE_SIDE if is_symbolic(a.extent) else 0) for a in (along.vector, crossed))
    others = typical(math.prod(a.extent for a in along.merged.rows if a is not along.vector and a is not crossed))
    return nvvm.transpose_tiles(along.vec, lanes, rows, others, along.device.sm_count)


def _of_columns(along: _Along) -> nvvm.NvvmConfig:
    """Returns the schedule of a space that reduces columns. Where a call decides how many rows are added up, all teams of a program
    have some."""
    reduced = math.prod(a.extent for a in along.merged.columns)
    least = int(min(nvvm.COLUMN_THREADS, upper_end(reduced))) if is_symbolic(reduced) else 0
    many, rows = max(typical(reduced), least), along.rows
    if is_symbolic(reduced) and is_symbolic(along.others):
        many = max(many, -(-nvvm.LITTLE // (rows * max(along.extent, 1))))  # calls may have much to read
    vec = min(along.vec, unstrided_width(along.accesses, along.vector))
    return nvvm.column_reduction(along.extent, vec, many, rows, along.device.sm_count)


def _flattened(along: _Along, results: list[int]) -> _Along | None:
    """Returns the space with its rows, or the last ones that lie side by side, as one axis; None if rows cannot be one axis, or if
    accesses along `vector` alone are as good. results: see schedule_gpu."""
    space, merged = along.space, along.merged
    for axes in (merged.rows, side_by_side(space, merged)):
        as_one = flattened(space, merged, axes) if len(axes) > 1 else None
        if as_one is None:
            continue
        flat, axis = as_one
        accesses = accesses_of(space, flat, along.aligned, results)
        found = flat_width(space, accesses, axis, flat)
        whole = replace(along, merged=flat, vector=axis, vec=found.width, accesses=accesses)
        if found.large_single:
            better = _pointwise(whole, found.large_single)[1] < _pointwise(along)[1]
        else:
            own = along.split_vec
            better = found.width > own or (found.width == own and not found.single and nvvm.leaves_threads_idle(along.extent, own))
        if better:
            return whole
    return None


def _of_rows(along: _Along, chosen: Rows | None) -> Schedule:
    """Returns the schedule of a space that reduces or scans along `vector`: the one that was chosen, else the cost model's."""
    space, merged, vector = along.space, along.merged, along.vector
    by_triton, contiguous = isinstance(chosen, Triton), len(merged.columns) == 1
    shift = shift_of(along.accesses, vector, along.vec) if contiguous and not by_triton and not has_sorts(space) else None
    extent, vec = along.extent, along.vec if shift is None else shift.width
    if not is_bounded(vector.extent):
        extent = max(extent, WALK_THREADS * nvvm.WALK_CHUNKS * vec)
    lanes = extent + vec - 1 if shift is not None else extent
    if shift is None and contiguous and not by_triton and not has_scans(space):
        vec = along.split_vec
    if has_sorts(space):
        config = row_sort(extent, vec, along.rows, along.device.sm_count)
    elif chosen is None:
        config = _along_rows(along, lanes, vec)
    else:
        config = chosen.config(lanes, vec)
        if config.cluster > 1 and along.ctas == 1:
            raise Unfit(f"{chosen} where CTAs cannot share a row: clusters are for sm_90 and newer")
    return Schedule(config, merged, vector, merged.rows, None, 0, (), None, shift)


def _pointwise(along: _Along, large_single: int = 0) -> tuple[nvvm.NvvmConfig, float]:
    """Returns the schedule along `vector` of a space that reduces nothing, by accesses of `vec` elements or those of `split_width`;
    and, if accesses are narrow, the cost of an element, else 0. large_single: see flat_width."""
    space, merged, vector = along.space, along.merged, along.vector
    vec = uncrossed_width(space, merged, along.aligned, along.accesses, vector, along.split_vec)
    rows, traffic, extent = typical(along.others), traffic_of(space, merged, vector, large_single), along.extent
    if traffic.narrow(vec):
        if not is_bounded(vector.extent):
            return narrow.narrow_of_any(vec, traffic)
        return narrow.narrow_accesses(extent, vec, along.rows, traffic, along.device.sm_count)
    if rows != 1 and not is_bounded(vector.extent):
        extent = min(extent, nvvm.LINE * vec)  # programs of a CTA lie side by side, so few threads to a row suit any length
    return nvvm.pointwise(extent, vec, rows), 0.0


def _along_rows(along: _Along, lanes: int, vec: int) -> nvvm.NvvmConfig:
    """Returns the cost model's schedule of a kernel that reduces or scans along rows of `lanes` elements, `vec` at a time."""
    space, merged, busy = along.space, along.merged, nvvm.BUSY * along.device.sm_count
    read = [e for e in space.loads if any(a in e.free for a in space.columns)]
    traffic = traffic_of(space, merged, along.vector)
    inputs, values = whole_inputs(along.accesses, len(space.results)), len(read) + len(space.results) if len(read) > 1 else 0
    item, row_bytes = traffic.item if traffic.narrow(vec) else 0, lanes * _read_bytes(read)
    row = RowKernel(lanes, vec, along.rows, along.device.sm_count, inputs, values, item, row_bytes)
    walks = nests_of(space, merged.columns, [(r, None) for r in space.results], online=True)
    scans = has_scans(space)
    # Where a call decides how many rows there are, it may have few: long ones have several CTAs each.
    few = row.rows < row.sms or is_symbolic(tuple(a.extent for a in merged.rows))
    sharing = along.ctas if few and not scans else 1
    walked = scans or (len(walks) == 1 and lanes * row.rows > busy * vec)
    config = row_walk(row, sharing) if walked else row_reduction(row, along.ctas, sharing)
    pieces = len(merged.columns) > 1 and is_symbolic(tuple(a.extent for a in merged.columns))  # else they are one run of jumps
    return in_teams(config) if pieces and not scans and not any(walk.online for walk in walks) else config


def _read_bytes(loads: list[Load]) -> int:
    """Returns the bytes that are read for an element of a row: of those at indices that are read themselves, whole sectors."""
    return sum(nvvm.SECTOR if e.offset.opaque else bits(e.dtype) // 8 for e in loads)
