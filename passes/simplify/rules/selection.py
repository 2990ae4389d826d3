"""Rules on select, maximumf and minimumf."""

import math

from torch_mlir import ir

from ..scalars import ScalarRef
from ..scope import RewriteScope

# Predicates of `cmpf` by number: u.. is true for NaN.
_UGT, _UGE, _ULT, _ULE = 9, 10, 11, 12
_SWAPPED = {_UGT: _ULT, _UGE: _ULE, _ULT: _UGT, _ULE: _UGE}


def select(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """select(true, a, b) -> a; select(c, a, a) -> a; select(x ugt c, x, c), the form of relu, -> maximumf(x, c)."""
    condition, a, b = s.args(op)
    known = s.number(condition)
    if known is not None:
        return s.use(a if known else b, op)
    if s.same(a, b):
        return s.use(a, op)
    compare = s.node(condition, "arith.cmpf")
    return _extremum_of(s, op, compare.op, compare.args, a, b) if compare else None


def _extremum_of(
    s: RewriteScope, op: ir.Operation, compare: ir.Operation, args: tuple[ScalarRef, ...], a: ScalarRef, b: ScalarRef
) -> ir.Value | None:
    """Turns compare and select into maximumf or minimumf. NaN: unordered predicates select x, as maximumf does. Zeros: `_tie`."""
    predicate = compare.attributes["predicate"].value
    x, c = args
    if s.number(x) is not None:
        x, c, predicate = c, x, _SWAPPED.get(predicate, -1)
    number = s.number(c)
    if number is None or math.isnan(number) or not (s.same(a, x) and _equal(s, b, c)):
        return None
    if predicate in (_UGT, _UGE) and _tie(number, predicate == _UGE, 1.0):
        name = "arith.maximumf"
    elif predicate in (_ULT, _ULE) and _tie(number, predicate == _ULE, -1.0):
        name = "arith.minimumf"
    else:
        return None
    return s.build(name, op.results[0].type, [s.use(x, op), s.use(c, op)], op)


def _tie(c: float, takes_x: bool, wins: float) -> bool:
    """Returns whether zeros agree: at x = -c = 0 a comparison finds a tie, maximumf takes 0.0 (`wins` = 1), minimumf -0.0 (`wins` =
    -1)."""
    return c != 0 or (not takes_x and math.copysign(1.0, c) == wins)


def extremum(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """max(x, x) -> x; max(max(x, c), c) -> max(x, c), also for minimumf."""
    a, b = s.args(op)
    if s.same(a, b):
        return s.use(a, op)
    for outer, other in ((a, b), (b, a)):
        inner = s.node(outer, op.name)
        if inner and any(s.same(arg, other) or _equal(s, arg, other) for arg in inner.args):
            return s.use(outer, op)
    return None


def _equal(s: RewriteScope, a: ScalarRef, b: ScalarRef) -> bool:
    x, y = s.number(a), s.number(b)
    return x is not None and y is not None and x == y and math.copysign(1.0, x) == math.copysign(1.0, y)
