"""Schedules a space on a GPU: how its blocks are spread over threads, how wide their accesses are, and what makes the grid."""

import math
from functools import partial

from lamina.core.gpu import Gpu
from lamina.core.sizes import SizeLike, is_bounded, is_symbolic, typical, upper_end
from lamina.schedules import narrow, nvvm
from lamina.schedules.base import TILE_SIDE
from lamina.schedules.rows import CLUSTER, Rows, Triton
from lamina.schedules.transposes import transpose_tiles

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
    if not space.columns and crossed is None and len(merged.rows) > 1 and vector is merged.rows[-1]:
        flat = _flattened(space, merged, vector, vec, accesses, aligned, results, device)
        merged, vector, vec, accesses = flat or (merged, vector, vec, accesses)
    if vector in merged.columns:
        return _of_rows(space, merged, vector, vec, accesses, len(results), device, chosen)
    by_parts, tall = False, TILE_SIDE
    if crossed is not None:
        config, tall = _transpose_tiles(merged, vector, crossed, vec, device)
    elif has_scans(space):
        config = nvvm.column_scan(typical(vector.extent))
    elif space.columns:
        vec = min(vec, unstrided_width(accesses, vector))
        reduced = math.prod(a.extent for a in merged.columns)
        rows, many = _rows(merged, vector, device), _reduced(reduced)
        if is_symbolic(reduced) and is_symbolic(tuple(a.extent for a in merged.rows if a is not vector)):
            many = max(many, -(-nvvm.LITTLE // (rows * max(typical(vector.extent), 1))))  # calls may have much to read
        config = nvvm.column_reduction(typical(vector.extent), vec, many, rows, device.sm_count)
    else:
        config = _pointwise(space, merged, aligned, accesses, vector, vec, device)[0]
        of_part = nvvm.of_part(config, *part_extent(space, merged, vector))
        by_parts, config = of_part is not None, of_part or config
    outer = tuple(a for a in merged.rows if a is not vector and a is not crossed)
    return Schedule(config, merged, vector, outer, vector, config.lanes, (), crossed, by_parts=by_parts, tall=tall)


def _transpose_tiles(merged: Merged, vector: Axis, crossed: Axis, vec: int, device: Gpu) -> tuple[nvvm.NvvmConfig, int]:
    """Returns the schedule of a transpose, and the rows of a tile. What a call decides may be long on either side."""
    lanes, rows = (max(typical(a.extent), TILE_SIDE if is_symbolic(a.extent) else 0) for a in (vector, crossed))
    others = typical(math.prod(a.extent for a in merged.rows if a is not vector and a is not crossed))
    return transpose_tiles(vec, lanes, rows, others, device.sm_count)


def _flattened(
    space: Space, merged: Merged, vector: Axis, vec: int, accesses: list[Access], aligned: Aligned, results: list[int], device: Gpu
) -> tuple[Merged, Axis, int, list[Access]] | None:
    """Returns the space with its rows, or the last ones that lie side by side, as one axis, that axis, and the width and places of
    accesses along it; None if rows cannot be one axis, or if accesses along `vector` alone are as good."""
    for axes in (merged.rows, side_by_side(space, merged)):
        as_one = flattened(space, merged, axes) if len(axes) > 1 else None
        if as_one is None:
            continue
        flat, axis = as_one
        flat_accesses = accesses_of(space, flat, aligned, results)
        found = flat_width(space, flat_accesses, axis, flat)
        if found.large_single:
            _, by_rows = _pointwise(space, merged, aligned, accesses, vector, vec, device)
            _, whole = _pointwise(space, flat, aligned, flat_accesses, axis, found.width, device, found.large_single)
            better = whole < by_rows
        else:
            own = max(vec, split_width(space, accesses, vector, merged.quotients))
            better = found.width > own or (
                found.width == own and not found.single and nvvm.leaves_threads_idle(typical(vector.extent), own)
            )
        if better:
            return flat, axis, found.width, flat_accesses
    return None


def _of_rows(
    space: Space, merged: Merged, vector: Axis, vec: int, accesses: list[Access], results: int, device: Gpu, chosen: Rows | None
) -> Schedule:
    """Returns the schedule of a space that reduces or scans along `vector`: the one that was chosen, else the cost model's."""
    by_triton = isinstance(chosen, Triton)
    shift = shift_of(accesses, vector, vec) if len(merged.columns) == 1 and not by_triton and not has_sorts(space) else None
    extent, vec = typical(vector.extent), shift.width if shift is not None else vec
    if not is_bounded(vector.extent):
        extent = max(extent, nvvm.WALK_THREADS * nvvm.WALK_CHUNKS * vec)
    lanes = extent + vec - 1 if shift is not None else extent
    if shift is None and len(merged.columns) == 1 and not by_triton and not has_scans(space):
        vec = max(vec, split_width(space, accesses, vector, merged.quotients))
    if has_sorts(space):
        config = nvvm.row_sort(extent, vec, _rows(merged, vector, device), device.sm_count)
    elif chosen is None:
        inputs, item = whole_inputs(accesses, results), _narrow_item(space, merged, vector, vec)
        config = _along_rows(space, merged, lanes, vec, _rows(merged, vector, device), inputs, device, item)
    else:
        config = chosen.config(lanes, vec)
        if config.cluster > 1 and _ctas(merged, device) == 1:
            raise Unfit(f"{chosen} where CTAs cannot share a row: clusters are for sm_90 and newer")
    return Schedule(config, merged, vector, merged.rows, None, 0, (), None, shift)


def _reduced(reduced: SizeLike) -> int:
    """Returns how many rows are added up, enough for all teams of a program where a call decides."""
    least = int(min(nvvm.COLUMN_THREADS, upper_end(reduced))) if is_symbolic(reduced) else 0
    return max(typical(reduced), least)


def _others(merged: Merged, vector: Axis) -> int:
    """Returns how many iterations the axes of rows other than `vector` have together, at typical sizes."""
    return typical(math.prod(a.extent for a in merged.rows if a is not vector))


def _rows(merged: Merged, vector: Axis, device: Gpu) -> int:
    """Returns how many rows there are. Where a call decides, and there may be any number, at least as many as keep a GPU busy: with
    more threads to a row, calls with thousands of rows take up to half as long again, while those with few hardly gain. The parts
    of a sum are never so many, but more than the one that a small call has."""
    others = math.prod(a.extent for a in merged.rows if a is not vector)
    if not is_symbolic(others):
        return typical(others)
    many = min(nvvm.PARTS, upper_end(others)) if is_bounded(others) else nvvm.BUSY * device.sm_count
    return max(typical(others), int(many))


def _pointwise(
    space: Space,
    merged: Merged,
    aligned: Aligned,
    accesses: list[Access],
    vector: Axis,
    vec: int,
    device: Gpu,
    large_single: int = 0,
) -> tuple[nvvm.NvvmConfig, float]:
    """Returns the schedule along `vector` of a space that reduces nothing, by accesses of `vec` elements or those of `split_width`;
    and, if accesses are narrow, the cost of an element, else 0. large_single: see flat_width."""
    vec = max(vec, split_width(space, accesses, vector, merged.quotients))
    vec = uncrossed_width(space, merged, aligned, accesses, vector, vec)
    rows, traffic, extent = _others(merged, vector), traffic_of(space, merged, vector, large_single), typical(vector.extent)
    if traffic.narrow(vec):
        if not is_bounded(vector.extent):
            return narrow.narrow_of_any(vec, traffic)
        return narrow.narrow_accesses(extent, vec, _rows(merged, vector, device), traffic, device.sm_count)
    if rows != 1 and not is_bounded(vector.extent):
        extent = min(extent, nvvm.LINE * vec)  # programs of a CTA lie side by side, so few threads to a row suit any length
    return nvvm.pointwise(extent, vec, rows), 0.0


def _narrow_item(space: Space, merged: Merged, vector: Axis, vec: int) -> int:
    """Returns the bytes of the narrowest element, where accesses of `vec` elements are narrow; else 0."""
    traffic = traffic_of(space, merged, vector)
    return traffic.item if traffic.narrow(vec) else 0


def _along_rows(
    space: Space, merged: Merged, lanes: int, vec: int, rows: int, inputs: int, device: Gpu, item: int
) -> nvvm.NvvmConfig:
    """Returns the schedule of a kernel that reduces or scans along rows."""
    walks = nests_of(space, merged.columns, [(r, None) for r in space.results], online=True)
    scans, ctas = has_scans(space), _ctas(merged, device)
    # Where a call decides how many rows there are, it may have few: long ones have several CTAs each.
    few = rows < device.sm_count or is_symbolic(tuple(a.extent for a in merged.rows))
    shared = ctas if few and not scans else 1
    read = _varying(space)
    values = len(read) + len(space.results) if len(read) > 1 else 0
    if scans or (len(walks) == 1 and lanes * rows > nvvm.BUSY * device.sm_count * vec):
        config = nvvm.row_walk(lanes, vec, rows, device.sm_count, shared, values)
    else:
        least = nvvm.ctas_of_few(rows, lanes * _read_bytes(read), device.sm_count, shared)
        config = nvvm.row_reduction(lanes, vec, rows, inputs, device.sm_count, ctas, item, shared, least, values)
    pieces = len(merged.columns) > 1 and is_symbolic(tuple(a.extent for a in merged.columns))  # else they are one run of jumps
    return nvvm.in_teams(config) if pieces and not scans and not any(walk.online for walk in walks) else config


def _varying(space: Space) -> list[Load]:
    """Returns the loads that differ along a row."""
    return [e for e in space.loads if any(a in e.free for a in space.columns)]


def _read_bytes(loads: list[Load]) -> int:
    """Returns the bytes that are read for an element of a row: of those at indices that are read themselves, whole sectors."""
    return sum(nvvm.SECTOR if e.offset.opaque else bits(e.dtype) // 8 for e in loads)


def _ctas(merged: Merged, device: Gpu) -> int:
    """Returns the CTAs that one program may have: those of a portable cluster, where a row is contiguous in memory."""
    return CLUSTER if device.capability >= 90 and len(merged.columns) == 1 else 1
