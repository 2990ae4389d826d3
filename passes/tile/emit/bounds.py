"""Emits bounds checks as lane masks, and shortens loops to their bounds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, reduce
from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith

from lamina.core.sizes import SizeLike, at_most, below, is_symbolic
from lamina.dialects.tile import GUARD

from ...ir.affine import Affine, Axis, Range
from ...ir.expressions import Apply, Const, Expr, InBounds, Load, Scatter, bounds_in, walk
from ...ir.guards import Bound, Guard, conjunction
from ...ir.reading import neutral_element
from ...space.nests import Nest
from ...space.vector_width import rising_term

if TYPE_CHECKING:
    from .blocks import Blocks

_NARROW = 1 << 31  # indices below it fit in 32 bits
_OF_ZERO = ("arith.extf", "arith.truncf", "arith.negf", "math.absf")  # ops that map 0 to 0


def condition(b: "Blocks", guard: Guard, wide: bool) -> ir.Value:
    """Emits whether every bound of a guard holds: one i1, or one per lane when `wide`."""
    holds = None
    for bound in guard:
        if (not bound.message and bound.implied_by(b.known)) or _holds(b, bound):
            continue
        lane_mask = (_first_lanes(b, bound) or _lanes(b, bound)) if wide else None
        if lane_mask is None:
            lane_mask = _compared(b, bound, wide)
        holds = lane_mask if holds is None else arith.andi(holds, lane_mask)
    return b.true(wide) if holds is None else holds


def check(b: "Blocks", e: Load | InBounds | Scatter, wide: bool) -> None:
    """Emits the checks of the user's indices (bounds with a message). Each applies only where all bounds before it hold."""
    for i, bound in enumerate(e.guard):
        if bound.message:
            ok = b.condition((bound,), wide)
            if i:
                ok = arith.ori(ok, arith.xori(b.condition(e.guard[:i], wide), b.true(wide)))
            emit_check(b, ok, wide, bound.message)


def emit_check(b: "Blocks", ok: ir.Value, wide: bool, message: str) -> None:
    """Emits a tile.check: the call fails with `message` where `ok` is false in an unmasked lane."""
    mask = b.stack[-1].mask
    if wide and mask is not None:
        ok = arith.ori(ok, arith.xori(mask, b.true(True)))
    ir.Operation.create("tile.check", operands=[ok], attributes={"message": ir.StringAttr.get(message)})


def undecided_bounds(b: "Blocks", guard: Guard) -> Guard:
    """Returns the bounds of a guard that may fail at this point. The model's own checks, which have a message, always stay."""
    return tuple(bound for bound in guard if bound.message or not (bound.implied_by(b.known) or _holds(b, bound)))


def _holds(b: "Blocks", bound: Bound) -> bool:
    """Returns whether a bound holds for all values that the axes in `b.ranges` have at this point."""
    index = b.merged.index(bound.index)
    if index.opaque or not any(a in b.ranges for a, _ in index.terms):
        return False
    low, high = index.bounds(b.ranges)
    return at_most(bound.low, low) and below(high, bound.high)


def comparisons(bound: Bound, index: ir.Value, number: Callable[[int], ir.Value], reach: Range) -> list[ir.Value]:
    """Emits the comparisons of a bound that can fail for an index in `reach`. number: makes a constant of the index's type."""
    out = []
    if not at_most(bound.low, reach[0]):
        out.append(arith.cmpi(arith.CmpIPredicate.sge, index, number(bound.low)))
    if not below(reach[1], bound.high):
        out.append(arith.cmpi(arith.CmpIPredicate.slt, index, number(bound.high)))
    return out


def _compared(b: "Blocks", bound: Bound, wide: bool) -> ir.Value:
    """Emits a bound as comparisons of its index."""
    at = b.merged.index(bound.index)
    lanes = wide and (at.coefficient(b.vector) != 0 or any(not isinstance(t, Axis) and b.is_block(t) for t, _ in at.terms))
    index = b.lane_index(bound.index) if lanes else b.index(bound.index)

    def number(n: SizeLike) -> ir.Value:
        """Emits a size as an index, broadcast to all lanes if the bound is compared in lanes."""
        return b.splat(n, ir.IndexType.get()) if lanes else b.number(n)

    reach = (-_NARROW, _NARROW) if at.opaque else at.bounds(b.ranges)
    sides = comparisons(bound, index, number, reach)
    both = reduce(arith.andi, sides) if sides else b.true(lanes)
    return b.widen(both) if wide else both


def guard_before(b: "Blocks", count: ir.Value) -> ir.Value:
    """Emits the mask of the first `count` lanes of a guard: the other lanes read as padding, unlike those of `mask_before`."""
    mask = b.mask_before(count)
    mask.owner.attributes[GUARD] = ir.UnitAttr.get()
    return mask


def _first_lanes(b: "Blocks", bound: Bound) -> ir.Value | None:
    """Emits the mask of the lanes before a symbolic end, which may be in the middle of an access. Returns None for other bounds,
    and if the lanes are not neighbors in memory."""
    index = b.merged.index(bound.index)
    if b.edge_loops or len(b.sides) > 1 or index.opaque or index.coefficient(b.vector) != 1 or not is_symbolic(bound.high):
        return None
    if not at_most(bound.low, index.bounds(b.ranges)[0]):
        return None
    depth = max((b.bound[a][0] for a, _ in index.terms), default=0)

    def made() -> ir.Value:
        """Computes the mask."""
        return guard_before(b, arith.maxsi(arith.subi(b.number(bound.high), b.index(bound.index)), b.number(0)))

    return b.memoized(("first lanes", index, bound.high), depth, made)


def _lanes(b: "Blocks", bound: Bound) -> ir.Value | None:
    """Emits the mask of lanes for which a bound holds from ranges of lanes (vector.create_mask), without computing their indices.

    Returns None unless `edge_loops` is set, the index changes by a known step from lane to lane, and, if its range is known, it
    fits in 32 bits.
    """
    index = b.merged.index(bound.index)
    step = index.coefficient(b.vector)
    if not b.edge_loops or index.opaque or is_symbolic(step) or step == 0:
        return None
    low, high = index.bounds(b.ranges)
    distance, open_ = abs(step), is_symbolic((low, high, bound.low, bound.high))
    if not open_ and max(abs(low), abs(high)) + distance * b.lanes >= _NARROW:
        return None
    depth = max((b.bound[a][0] for a, _ in index.terms), default=0)

    def first(limit: SizeLike) -> ir.Value:
        """Emits the mask of the first lanes, those with an index less than `limit`; if the index falls, those with at least
        `limit`. Masks count in 32 bits, so a count that may need more is clamped to the number of lanes."""
        index = b.index(bound.index)
        to = arith.subi(b.number(limit + distance - 1), index) if step > 0 else arith.subi(index, b.number(limit - distance))
        count = arith.divui(arith.maxsi(to, b.number(0)), b.number(distance)) if distance > 1 else to
        return b.mask_before(arith.minsi(arith.maxsi(count, b.number(0)), b.number(b.lanes)) if open_ else count)

    def made() -> ir.Value:
        """Emits the mask as the intersection of both sides of the bound."""
        yes = b.true(True)
        parts = []
        if not at_most(bound.low, low):
            parts.append(arith.xori(first(bound.low), yes) if step > 0 else first(bound.low))
        if not below(high, bound.high):
            parts.append(first(bound.high) if step > 0 else arith.xori(first(bound.high), yes))
        return yes if not parts else parts[0] if len(parts) == 1 else arith.andi(*parts)

    return b.memoized(("lanes", index, bound.low, bound.high, b.lanes), depth, partial(made))


@contextmanager
def ending_at_bounds(b: "Blocks", nest: Nest, axis: Axis) -> Iterator[tuple[ir.Value, SizeLike | None]]:
    """Yields the number of iterations that a nest's loop over `axis` needs, as a value, and as a size if it is the whole extent.
    Within the context, the bounds that the loop ends at are known to hold.

    The other iterations would only reduce neutral elements, such as the padding of the last part of a sum. So the loop is shorter,
    and its loads need no mask:

        for i < length:    sum += x[base + i] where base + i < n     ->      for i < min(length, n - base):    sum += x[base + i]

    An axis may be several rows, of which those past an end are left out. Results that the loop stores must end there, too.
    """
    known, bounds = b.known, tuple(_ends(b, nest, axis))
    count = b.number(axis.extent)
    with b.point():
        for bound in bounds:
            index = b.merged.index(bound.index)
            term, each = rising_term(index, axis, b.merged.quotients)
            assert term is not None
            left = arith.subi(b.number(bound.high), b.index(index + Affine(0, ((term, -1),))))
            inside = arith.maxsi(left, b.number(0))
            count = arith.minsi(count, inside if each == 1 else arith.muli(inside, b.number(each)))
    b.known = conjunction(known, bounds)
    yield count, None if bounds else axis.extent
    b.known = known


def _ends(b: "Blocks", nest: Nest, axis: Axis) -> Iterator[Bound]:
    """Yields the bounds that fail from some iteration of `axis` on, if all reductions get their neutral elements from there on."""
    short = axis is b.vector and at_most(axis.extent, b.lanes)  # one block, which needs a mask all the same
    if not is_symbolic(axis.extent) or short or nest.scans or nest.online:
        return
    for bound in bounds_in(e for r in nest.reductions for e in walk(r.arg)):
        index = b.merged.index(bound.index)
        term, _ = rising_term(index, axis, b.merged.quotients)
        rest = index + Affine(0, ((term, -1),)) if term is not None else index
        if term is None or any(t not in b.bound for t, _ in rest.terms):
            continue
        if (
            at_most(bound.low, rest.bounds(b.ranges)[0])
            and all(_padding(r.arg, bound) == neutral_element(r.op, r.dtype) for r in nest.reductions)
            and all(isinstance(r.expr, Scatter) and bound in r.expr.guard for r, _ in nest.results)
        ):
            yield bound


def _padding(e: Expr, bound: Bound) -> SizeLike | float | None:
    """Returns the value that an expression has where a bound fails; None if unknown."""
    match e:
        case Load():
            return 0 if bound in e.guard else None
        case Const():
            return e.value
        case Apply(op="arith.select", operands=(InBounds() as inside, _, other)):
            return _padding(other, bound) if bound in inside.guard else None
        case Apply(op=op, operands=operands) if op in _OF_ZERO and _padding(operands[0], bound) == 0:
            return 0
    return None
