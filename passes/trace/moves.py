"""Traces elements of ops that place tensors inside others (insert_slice, pad, concat), of scans and of scatters.

Each function takes the tracer, the op, the index of the element and the guard under which it is read.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from torch_mlir import ir

from lamina.dialects.combining import COMBINE

from ..ir.affine import Affine, offset
from ..ir.expressions import Const, Expr, InBounds, Load, Scatter, index_of, walk
from ..ir.guards import Bound, Guard, conjunction, with_index_check
from ..ir.reading import SCATTER, SORT, Index, Untraceable, integer, shape_of, terminator
from ..ir.views import slice_of
from .stored import Pair, is_pair

if TYPE_CHECKING:
    from .trace import Tracer


def select_where(t: "Tracer", guard: Guard, inside: Guard, yes: Callable[[], Expr], no: Callable[[], Expr]) -> Expr:
    """Returns `yes` where every bound of `inside` holds and `no` elsewhere; a branch that `guard` already excludes is not built."""
    if any(b.excluded_by(guard) for b in inside):
        return no()
    needed = tuple(b for b in inside if not b.implied_by(guard))
    if not needed:
        return yes()
    a, otherwise = yes(), no()
    zero = isinstance(otherwise, Const) and repr(otherwise.value) in ("0", "0.0")
    if zero and isinstance(a, Load) and all(b.implied_by(a.guard) for b in needed):
        return a  # 0 where its guard fails
    return t.make.apply("arith.select", (t.make.in_bounds(needed), a, otherwise), None, a.dtype)


def with_checks(t: "Tracer", e: Expr, guard: Guard) -> Expr:
    """Returns an element that was traced under a guard, with the guard's check of a user's index where no load makes it."""
    bound = next((b for b in reversed(guard) if b.message), None)
    if bound is None or (isinstance(e, Load) and bound in e.guard):
        return e
    if any(bound in found.guard for found in walk(e) if isinstance(found, Load | InBounds)):
        return e
    needed = tuple(b for b in guard if not b.always)
    return t.make.apply("arith.select", (t.make.in_bounds(needed), e, t.make.const(0, e.dtype)), None, e.dtype)


def trace_check(t: "Tracer", op: ir.Operation, ok: Expr, guard: Guard) -> Expr:
    """Returns a truth value of a graph.check, which has to hold where the guard does; false elsewhere."""
    if isinstance(ok, Const) and ok.value:
        return ok
    number = t.make.apply("arith.index_cast", (t.make.apply("arith.extui", (ok,), None, "i64"),), None, "index")
    bound = Bound(index_of(number), 1, 2, ir.StringAttr(op.attributes["message"]).value)
    return t.make.in_bounds((*(b for b in guard if not b.always), bound))


def trace_insert_slice(t: "Tracer", op: ir.Operation, index: Index, guard: Guard) -> Expr:
    """Traces an element of a tensor.insert_slice. Raises Untraceable if its strides are not 1."""
    if any(s != 1 for s in slice_of(op, "strides")):
        raise Untraceable(op.results[0], "tensor.insert_slice with steps")
    starts, sizes = slice_of(op, "offsets"), slice_of(op, "sizes")
    small, local, d = shape_of(op.operands[0]), [], 0
    for position, start, n in zip(index, starts, sizes, strict=True):
        if d < len(small) and small[d] == n:
            local.append(position + -start)
            d += 1
    inside = tuple(Bound(position, s, s + n) for position, s, n in zip(index, starts, sizes, strict=True))
    inserted = partial(t.element, op.operands[0], tuple(local), conjunction(guard, inside))
    return select_where(t, guard, inside, inserted, partial(t.element, op.operands[1], index, guard))


def trace_scan(t: "Tracer", op: ir.Operation, index: Index, guard: Guard) -> Expr:
    """Traces an element of a graph.scan or graph.sort."""
    arg, *decay = (t.element(v, index, guard) for v in op.operands)
    terms = index[integer(op, "dim")].terms
    if not terms:  # a scan along one element is that element
        return arg
    name = SORT if op.name == SORT else ir.StringAttr(op.attributes[COMBINE]).value
    return t.make.scan(name, arg, terms[0][0], decay[0] if decay else None)


def trace_pad(t: "Tracer", op: ir.Operation, index: Index, guard: Guard) -> Expr:
    """Traces an element of a tensor.pad: the source inside its bounds, the padding value elsewhere."""
    low, shape = slice_of(op, "low"), shape_of(op.operands[0])
    inside = tuple(Bound(position, lo, lo + n) for position, lo, n in zip(index, low, shape, strict=True))
    filler = terminator(op.regions[0].blocks[0]).operands[0]
    return select_where(
        t,
        guard,
        inside,
        lambda: t.element(
            op.operands[0], tuple(position + -lo for position, lo in zip(index, low, strict=True)), conjunction(guard, inside)
        ),
        lambda: t.scalar(filler, {}, (), guard),
    )


def trace_concat(t: "Tracer", op: ir.Operation, index: Index, guard: Guard) -> Expr:
    """Traces an element of a tensor.concat: a chain of selects over the parts that `guard` leaves possible."""
    d, begin = integer(op, "dim"), 0
    wanted: list[tuple[Bound, Index, ir.Value]] = []
    for part in op.operands:
        n = shape_of(part)[d]
        inside = Bound(index[d], begin, begin + n)
        if not inside.excluded_by(guard):
            wanted.append((inside, (*index[:d], index[d] + -begin, *index[d + 1 :]), part))
        if inside.implied_by(guard):
            break
        begin += n
    inside, local, part = wanted.pop()
    out = t.element(part, local, conjunction(guard, (inside,)))
    for inside, local, part in reversed(wanted):
        out = select_where(
            t, guard, (inside,), partial(t.element, part, local, conjunction(guard, (inside,))), partial(_unchanged, out)
        )
    return out


def is_stored(op: ir.Operation) -> bool:
    """Returns whether an op says by itself where a kernel stores what it computes (see `trace_stored`)."""
    return op.name == SCATTER or is_pair(op)


def trace_stored(t: "Tracer", op: ir.Operation, index: Index, strides: tuple[int, ...]) -> tuple[Expr, Affine]:
    """Traces what a graph.scatter stores of an element of its values, or both elements that a tensor.concat puts side by side; and
    the place, that of the first, in memory of these strides."""
    if is_pair(op):
        first, second = (t.element(part, (*index, Affine())) for part in op.operands)
        return Pair(first, second, strides[-1], first.dtype), offset(index, strides[:-1])
    return (scatter := trace_scatter(t, op, index, strides)), scatter.offset


def _unchanged(expr: Expr) -> Expr:
    return expr


def trace_scatter(t: "Tracer", op: ir.Operation, index: Index, strides: tuple[int, ...]) -> Scatter:
    """Returns the expression that a graph.scatter stores for element `index` of its values. strides: of the memory that it stores
    to."""
    into, values, *indices = op.operands
    elements = [t.element(i, index) for i in indices]
    positions = tuple(index_of(t.make.apply("arith.index_cast", (e,), None, "index")) for e in elements)
    guard: Guard = ()
    for i, size in zip(positions, shape_of(into), strict=True):
        guard = with_index_check(guard, i, size)
    combine = op.attributes[COMBINE].value if COMBINE in op.attributes else ""
    own = frozenset(axis for i in positions for axis in i.injective_axes())
    return t.make.scatter(t.element(values, index), offset(positions, strides), guard, combine, own)
