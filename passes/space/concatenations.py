"""Finds where the parts of concatenations begin and end along the axis that programs take blocks of."""

import math

from lamina.core.sizes import is_symbolic

from ..ir.affine import Axis
from ..ir.expressions import Apply, Expr, InBounds, Load, walk
from ..ir.guards import Bound
from .coalesce import Merged
from .space import Space


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
    """Returns where the part begins and ends along `vector`; None where another axis decides it."""
    at = bound.at.rename(merged.rename)
    if at.coefficient(vector) != 1 or len(at.terms) != 1:
        return None
    return bound.low - at.constant, bound.high - at.constant
