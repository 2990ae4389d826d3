"""Divides an axis into regions at the places where bounds begin or cease to hold.

The padding of a row, the parts of a concatenation and the edges of a window's image are such regions. Loops over a region need no
checks of the bounds that it decides.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from lamina.core.sizes import SizeLike, at_most, below, is_symbolic, maximum, minimum, typical

from ..ir.affine import Affine, Axis
from ..ir.expressions import Apply, Const, Expr, InBounds, Load, bounds_in, walk
from ..ir.guards import Bound, Guard
from .coalesce import Merged
from .space import Space

MOST = 8
"""The most regions of an axis, times the loops over it: each region has copies of these, which take time to compile."""


@dataclass(frozen=True)
class AxisRegion:
    """Elements of an axis for which some bounds are decided.

    begin, end  the first element, and that after the last one
    holds       bounds that hold, besides those that the values of the axis show to hold
    decided     loads, selects and conditions, and what they are
    """

    begin: SizeLike
    end: SizeLike
    holds: Guard = ()
    decided: dict[Expr, Expr] = field(default_factory=dict)


def aligned_regions(axis: Axis, space: Space, change: dict[Axis, Affine], lanes: int) -> list[AxisRegion]:
    """Returns the blocks of `lanes` elements of an axis in which all bounds hold that fail in another block, those before them, and
    those after them; and what whole blocks leave. Bounds may depend on other axes, too. Returns [] if all blocks are alike, or no
    block has all of these bounds. The extent is an int.

    change  indices over merged axes, by axis
    """
    whole = axis.extent // lanes * lanes
    first, end = 0, whole
    for bound in bounds_in(space.expressions):
        index = bound.index.rename(change)
        if index.opaque or index.coefficient(axis) == 0:
            continue
        while first < end and not _holds_in(bound, index, axis, first, lanes):
            first += lanes
        while first < end and not _holds_in(bound, index, axis, end - lanes, lanes):
            end -= lanes
    if first == end or (first, end) == (0, whole):
        return []
    return [AxisRegion(low, high) for low, high in pairwise((0, first, end, whole, axis.extent)) if low < high]


def _holds_in(bound: Bound, index: Affine, axis: Axis, first: int, lanes: int) -> bool:
    """Returns whether a bound on an index holds in the block of an axis that begins at `first`."""
    low, high = index.bounds({axis: (first, first + lanes - 1)})
    return at_most(bound.low, low) and below(high, bound.high)


def regions_along(axis: Axis, space: Space, change: dict[Axis, Affine], short: int = 0, most: int = MOST) -> list[AxisRegion]:
    """Returns the regions of an axis in order; [] if no bound depends on it alone, if there are many, or if the order of
    their ends is not known for all sizes.

    change  indices over merged axes, by axis
    short   elements up to which neighboring regions are one, in which not all bounds are decided
    most    regions that are not too many
    """
    spans = {bound: span for bound in bounds_in(space.expressions) if (span := _span(bound, axis, change)) is not None}
    ends = _without_short(_sorted({n for span in spans.values() for n in span} | {0, axis.extent}), short)
    if not spans or not 2 < len(ends) <= most + 1:
        return []
    found = []
    for begin, end in pairwise(ends):
        holds = tuple(b for b, (low, high) in spans.items() if at_most(low, begin) and at_most(end, high))
        fails = {b for b, (low, high) in spans.items() if at_most(end, low) or at_most(high, begin)}
        found.append(AxisRegion(begin, end, holds, dict(_decided(space.expressions, holds, fails))))
    return found


def _without_short(ends: list[SizeLike], short: int) -> list[SizeLike]:
    """Returns ends of regions without those between regions that are short together."""
    found = ends[:1]
    for end, following in pairwise(ends[1:]):
        if not at_most(following - found[-1], short):
            found.append(end)
    return found + ends[1:][-1:]


def long_regions(axis: Axis, space: Space, change: dict[Axis, Affine], lanes: int) -> list[AxisRegion]:
    """Returns the regions of an axis of known length; [] if they add a quarter to its blocks or more at typical sizes."""
    regions = regions_along(axis, space, change)
    blocks = sum(-(-typical(region.end - region.begin) // lanes) for region in regions)
    return regions if 4 * blocks <= 5 * -(-axis.extent // lanes) else []


def _span(bound: Bound, axis: Axis, change: dict[Axis, Affine]) -> tuple[SizeLike, SizeLike] | None:
    """Returns the range of an axis in which a bound holds, and outside of which it fails; None if other axes have a part."""
    index = bound.index.rename(change)
    step = 0 if index.opaque else index.coefficient(axis)
    if len(index.terms) != 1 or is_symbolic(step) or step == 0:
        return None
    if step > 0:
        low, high = -((index.constant - bound.low) // step), -((index.constant - bound.high) // step)
    else:
        low, high = (index.constant - bound.high) // -step + 1, (index.constant - bound.low) // -step + 1
    return minimum(maximum(low, 0), axis.extent), minimum(maximum(high, 0), axis.extent)


def _sorted(sizes: Iterable[SizeLike]) -> list[SizeLike]:
    """Returns sizes from the least to the largest; [] if their order is not known."""
    found: list[SizeLike] = []
    for n in sizes:
        place = next((i for i, other in enumerate(found) if at_most(n, other)), len(found))
        if not all(at_most(other, n) for other in found[:place]):
            return []
        found.insert(place, n)
    return found


def _decided(expressions: Iterable[Expr], holds: Guard, fails: set[Bound]) -> Iterator[tuple[Expr, Expr]]:
    """Yields loads, selects and conditions that bounds decide, and what they are."""
    for e in expressions:
        match e:
            case Load() | InBounds() if not fails.isdisjoint(e.guard) and not _is_checked(e):
                yield e, Const(0 if isinstance(e, Load) else False, e.dtype)
            case Apply(op="arith.select", operands=(InBounds() as inside, yes, no)) if not _is_checked(inside):
                if not fails.isdisjoint(inside.guard) and _never_checks(yes, fails):
                    yield e, no
                elif all(bound in holds for bound in inside.guard) and _never_checks(no, fails):
                    yield e, yes


def _is_checked(e: Load | InBounds) -> bool:
    """Returns whether a user's index is checked here."""
    return any(bound.message for bound in e.guard)


def _never_checks(e: Expr, fails: set[Bound]) -> bool:
    """Returns whether an expression checks no user's index where these bounds fail, so that it need not be computed."""
    checked = (x for x in walk(e) if isinstance(x, Load | InBounds) and _is_checked(x))
    return all(not fails.isdisjoint(x.guard) for x in checked)


def part_extent(space: Space, merged: Merged, vector: Axis) -> tuple[int, int]:
    """Returns the largest block extent along `vector` with which every block lies within one part of every concatenation along it,
    and how many parts there are. Returns (0, 0) where there are no concatenations, where no part has more than two loads, which
    cost less than a branch, and where a call decides the size of a part."""
    choices = [c for e in space.expressions if (c := choice_of(e))]
    found = [(ends, yes, no) for bound, yes, no in choices if (ends := ends_along(bound, merged, vector))]
    loads = [
        sum(isinstance(x, Load) and vector in merged.merged(x.free) for x in walk(part)) for _, *parts in found for part in parts
    ]
    places = [vector.extent, *(n for ends, *_ in found for n in ends)]
    if max(loads, default=0) <= 2 or is_symbolic(places):
        return 0, 0
    return math.gcd(*places), len(found) + 1


def choice_of(e: Expr) -> tuple[Bound, Expr, Expr] | None:
    """Returns the bound that selects between two expressions, and these, where `e` is such a select; else None."""
    if not isinstance(e, Apply) or e.op != "arith.select" or not isinstance(e.operands[0], InBounds):
        return None
    guard = e.operands[0].guard
    return (guard[0], e.operands[1], e.operands[2]) if len(guard) == 1 and not guard[0].message else None


def ends_along(bound: Bound, merged: Merged, vector: Axis) -> tuple[int, int] | None:
    """Returns where the part begins and ends along `vector`; None if another axis decides it."""
    index = merged.index(bound.index)
    if index.coefficient(vector) != 1 or len(index.terms) != 1:
        return None
    return bound.low - index.constant, bound.high - index.constant
