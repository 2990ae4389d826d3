"""Covers an axis by blocks: whole blocks, and a masked one for the remainder.

Where the call decides how much whole blocks leave, narrower blocks cover it, of which the last is masked. A block of the usual
width under a mask computes all of its lanes, however few count: rows of 8 elements would take as long as rows of 64. And a mask is
slow where elements are smaller than the processor's masked accesses take.

Where bounds hold in a part of the axis only, blocks in which they are decided have loops of their own, without masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from lamina.core.sizes import SizeLike, at_most, is_symbolic

from ..ir.affine import Axis
from ..ir.guards import conjunction
from ..space.regions import MOST, AxisRegion, aligned_regions, long_regions, regions_along
from ..space.schedule import Schedule
from .emit import unaligned_rows
from .emit.scopes import AxisPart, Body

if TYPE_CHECKING:
    from .emit.blocks import Blocks
    from .loops import Loops


def blocks_along(loops: Loops, part: AxisPart, inits: list[ir.Value], body: Body) -> list[ir.Value]:
    """Runs `body` for a part of an axis, which begins at its `first`, in blocks; returns the carried values."""
    schedule, axis, exact = loops.schedule, part.axis, part.exact
    lanes = schedule.config.lanes
    if schedule.shift is not None and axis is schedule.vector:
        return unaligned_rows.loop_over_row(loops, part, inits, body)
    if exact is None and schedule.config.masked and axis is schedule.chunked:
        return loops.loop(part, lanes, part.high, inits, body, single=True)
    if exact is not None and not isinstance(exact, int) and at_most(exact, lanes):
        return loops.loop(part, lanes, part.high, inits, body, single=True)
    if regions := _regions(loops, axis, part.first == part.low and exact == axis.extent):
        return _by_regions(loops, part, regions, inits, body)
    if isinstance(exact, int):
        return _known_count(loops, part, 0, exact, inits, body)
    return _whole_and_rest(loops, part, inits, body)


def _regions(loops: Loops, axis: Axis, whole: bool) -> list[AxisRegion]:
    """Returns the regions of an axis that get loops of their own; [] if it is not divided. whole: all of the axis is covered, by
    one program."""
    space, config, change = loops.space, loops.schedule.config, loops.schedule.merged.rename
    if not config.edge_loops or axis in loops.b.ranges:  # the caller has divided it
        return []
    if whole and isinstance(axis.extent, int):
        return aligned_regions(axis, space, change, config.lanes) or long_regions(axis, space, change, config.lanes)
    regions = regions_along(axis, space, change, config.rest_lanes)
    return regions if len(regions) * len(loops.nests) <= MOST else []


def _known_count(loops: Loops, part: AxisPart, low: int, high: int, inits: list[ir.Value], body: Body) -> list[ir.Value]:
    """Covers the elements from `low` up to `high` of a part."""
    number, lanes = loops.b.number, loops.schedule.config.lanes
    whole = low + (high - low) // lanes * lanes
    if low < whole:
        blocks = replace(part, low=number(low), high=number(whole))
        inits = loops.loop(blocks, lanes, None, inits, body, single=whole - low == lanes)
    if whole < high:
        rest = replace(part, low=number(whole), high=number(high))
        inits = loops.loop(rest, lanes, high - whole, inits, body, single=True)
    return inits


def _by_regions(loops: Loops, part: AxisPart, regions: Sequence[AxisRegion], inits: list[ir.Value], body: Body) -> list[ir.Value]:
    """Covers a part that begins at its `first`, with loops for each region, in which its bounds are decided."""
    b, lanes, first, count = loops.b, loops.schedule.config.lanes, part.first, part.high
    outer_known, decided, ranges, stream_bytes = b.known, b.decided, b.ranges, b.stream_bytes
    if any(is_symbolic(region.begin) or region.begin % lanes for region in regions):
        b.stream_bytes = 0  # these begin in the middle of cache lines
    ends = [_elements_before(b, region.begin, first, count) for region in regions] + [count]
    for region, low, high in zip(regions, ends[:-1], ends[1:], strict=True):
        begin, end = region.begin, region.end
        b.known, b.decided = conjunction(outer_known, region.holds), {**decided, **region.decided}
        b.ranges = ranges if is_symbolic((begin, end)) else {**ranges, part.axis: (begin, end - 1)}
        of_region = AxisPart(part.axis, first, low, high)
        if isinstance(begin, int) and isinstance(end, int) and first == b.number(0):
            inits = _known_count(loops, of_region, begin, end, inits, body)
        elif at_most(end - begin, narrow_lanes(loops.schedule)):
            inits = _rest(loops, of_region, inits, body, short=True)
        else:
            inits = _whole_and_rest(loops, of_region, inits, body)
    b.known, b.decided, b.ranges, b.stream_bytes = outer_known, decided, ranges, stream_bytes
    return inits


def each_region(loops: Loops, axis: Axis, inits: list[ir.Value], body: Body) -> list[ir.Value]:
    """Runs `body` for each element of an axis other than the vector axis, region by region."""
    b, mask = loops.b, loops.b.stack[-1].mask
    outer_known, decided, ranges = b.known, b.decided, b.ranges

    def masked(carried: list[ir.Value]) -> list[ir.Value]:
        """Emits the body for the lanes of the block around."""
        b.stack[-1].mask = mask
        return body(carried)

    for region in regions_along(axis, loops.space, loops.schedule.merged.rename, most=axis.extent):
        begin, end = region.begin, region.end
        b.known, b.decided = conjunction(outer_known, region.holds), {**decided, **region.decided}
        b.ranges = {**ranges, axis: (begin, end - 1)}
        low, high = b.number(begin), b.number(end)
        inits = loops.loop(AxisPart(axis, b.number(0), low, high), 1, None, inits, masked, single=end - begin == 1)
    b.known, b.decided, b.ranges = outer_known, decided, ranges
    return inits


def _elements_before(b: Blocks, place: SizeLike, first: ir.Value, count: ir.Value) -> ir.Value:
    """Returns the number of a program's elements in front of a place of the axis."""
    zero, position = b.number(0), b.number(place)
    if first == zero:
        return position
    return b.hoisted(lambda: arith.minsi(arith.maxsi(arith.subi(position, first), zero), count), first, count)


def _whole_and_rest(loops: Loops, part: AxisPart, inits: list[ir.Value], body: Body) -> list[ir.Value]:
    """Covers a part by whole blocks and what they leave; returns the carried values."""
    lanes = loops.schedule.config.lanes
    end = _whole(loops.b, part, lanes)
    inits = loops.loop(replace(part, high=end), lanes, None, inits, body)
    return _rest(loops, replace(part, low=end), inits, body)


def _rest(loops: Loops, part: AxisPart, inits: list[ir.Value], body: Body, short: bool = False) -> list[ir.Value]:
    """Covers what whole blocks leave; returns the carried values. The first lanes of carried blocks are those of the narrower
    blocks meanwhile. short: see `narrow_rest`."""
    b, lanes = loops.b, narrow_lanes(loops.schedule)
    if not lanes:
        return loops.loop(part, loops.schedule.config.lanes, part.high, inits, body)
    with b.point():
        narrow = [first_lanes(v, lanes) for v in inits]
    with b.narrower(lanes):
        narrow = narrow_rest(loops, part, narrow, body, short)
    with b.point():
        return [vector.insert_strided_slice(n, v, [0], [1]) for v, n in zip(inits, narrow, strict=True)]


def narrow_lanes(schedule: Schedule) -> int:
    """Returns the lanes of the blocks that cover what whole blocks leave; 0 if they are no narrower than these."""
    return schedule.config.rest_lanes if schedule.config.rest_lanes < schedule.config.lanes else 0


def narrow_rest(loops: Loops, part: AxisPart, inits: list[ir.Value], body: Body, short: bool = False) -> list[ir.Value]:
    """Covers what whole blocks leave by blocks of the current width, which is the narrower one, as the carried values are.
    short: the part is known to have no more elements than one such block."""
    b = loops.b
    if not short:
        end = _whole(b, part, b.lanes)
        inits = loops.loop(replace(part, high=end), b.lanes, None, inits, body)
        part = replace(part, low=end)

    def block(carried: list[ir.Value]) -> list[ir.Value]:
        """Emits the masked block."""
        loops.enter(part.axis, part.first, part.low, part.high)
        return body(carried)

    with b.point():
        has_rest = arith.cmpi(arith.CmpIPredicate.slt, part.low, part.high)
    return b.when(has_rest, inits, block)


def _whole(b: Blocks, part: AxisPart, lanes: int) -> ir.Value:
    """Returns the end of the last whole block of so many lanes."""
    if part.exact is not None:
        return b.number(part.exact // lanes * lanes)

    def end() -> ir.Value:
        """Computes it."""
        count = part.high if part.low == b.number(0) else arith.subi(part.high, part.low)
        return arith.subi(part.high, arith.remui(count, b.number(lanes)))

    return b.hoisted(end, part.low, part.high)


def first_lanes(v: ir.Value, lanes: int) -> ir.Value:
    """Returns the first lanes of a block."""
    return vector.extract_strided_slice(ir.VectorType.get([lanes], ir.VectorType(v.type).element_type), v, [0], [lanes], [1])
