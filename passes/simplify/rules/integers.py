"""Rules on integers, bools and positions."""

from torch_mlir import ir

from ...ir.reading import element_of
from ..scope import RewriteScope
from .casts import is_bool

_NE = 1  # of arith.cmpi's predicates


def add(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """x + 0 -> x."""
    a, b = s.args(op)
    return s.use(a, op) if s.number(b) == 0 else s.use(b, op) if s.number(a) == 0 else None


def subtract(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """x - 0 -> x; x - x -> 0."""
    a, b = s.args(op)
    if s.number(b) == 0:
        return s.use(a, op)
    return s.constant(0, op.results[0].type, op) if s.same(a, b) else None


def multiply(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """x * 1 -> x; x * 0 -> 0."""
    a, b = s.args(op)
    for x, y in ((a, b), (b, a)):
        if s.number(y) == 1 and not is_bool(op.results[0].type):
            return s.use(x, op)
        if s.number(y) == 0:
            return s.use(y, op)
    return None


def same_or_constant(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """x and x, x or x -> x; for bools x and true, x or false -> x."""
    a, b = s.args(op)
    if s.same(a, b):
        return s.use(a, op)
    if not is_bool(op.results[0].type):
        return None
    keeps = op.name == "arith.andi"
    for x, y in ((a, b), (b, a)):
        known = s.number(y)
        if known is not None:
            return s.use(x if bool(known) == keeps else y, op)
    return None


def exclusive(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """not(not b) -> b for bools (xori with true); x xor 0 -> x."""
    a, b = s.args(op)
    for x, y in ((a, b), (b, a)):
        known = s.number(y)
        if known == 0:
            return s.use(x, op)
        inner = s.node(x, "arith.xori") if known else None
        if inner and is_bool(op.results[0].type):
            for u, v in (inner.args, inner.args[::-1]):
                if s.number(v):
                    return s.use(u, op)
    return None


def compare(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """(b != false) -> b for a bool b, which may be widened to an integer."""
    a, b = s.args(op)
    if op.attributes["predicate"].value != _NE or s.number(b) != 0:
        return None
    if is_bool(a.value.type):
        return s.use(a, op)
    inner = s.node(a, "arith.extui", "arith.extsi")
    return s.use(inner.args[0], op) if inner and is_bool(inner.args[0].value.type) else None


def floor_division(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """int(floor(f64(a) / f64(c))) for a constant integer c -> floordivsi(a, c), a shift for powers of two.

    torch-mlir divides integers through f64, which is exact up to 2^53; this is exact for all.
    """
    a = s.args(op)[0]
    floor = s.node(a, "math.floor")
    quotient = s.node(floor.args[0], "arith.divf") if floor else None
    if quotient is None or not isinstance(quotient.op.results[0].type, ir.F64Type):
        return None
    whole, c, type_ = s.node(quotient.args[0], "arith.sitofp"), s.number(quotient.args[1]), op.results[0].type
    if whole is None or c is None or c != int(c) or c < 1 or c > 2**31 or element_of(whole.args[0].value.type) != type_:
        return None
    divisor, x = int(c), s.use(whole.args[0], op)
    if divisor & (divisor - 1) == 0:
        return s.build("arith.shrsi", type_, [x, s.constant(divisor.bit_length() - 1, type_, op)], op)
    return s.build("arith.floordivsi", type_, [x, s.constant(divisor, type_, op)], op)
