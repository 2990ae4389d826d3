"""Exact rewrite rules of floating-point arithmetic: results stay the same for every input, including NaN, infinities and -0.0.

NaNs count as the same whatever their sign and payload.
"""

import math

from torch_mlir import ir

from ..scalars import ScalarRef
from ..scope import RewriteScope
from .zeros import never_negative_zero, sign_of_zero_ignored


def add(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """x + -0.0 -> x; x + 0.0 -> x where x is never -0.0 or nothing depends on the sign of a zero; x + (-y) -> x - y."""
    a, b = s.args(op)
    for x, y in ((a, b), (b, a)):
        number = s.number(y)
        if number == 0 and (_is_negative(number) or _may_drop_zero(s, op, x)):
            return s.use(x, op)
        if number is None and s.generic.parallel and (negated := s.node(y, "arith.negf")):  # reductions must keep their addf
            return s.build("arith.subf", op.results[0].type, [s.use(x, op), s.use(negated.args[0], op)], op)
    return None


def subtract(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """x - 0.0 -> x; x - -0.0 as in `add`; -0.0 - x -> -x; x - (-y) -> x + y."""
    a, b = s.args(op)
    number, type_ = s.number(b), op.results[0].type
    if number == 0 and (not _is_negative(number) or _may_drop_zero(s, op, a)):
        return s.use(a, op)
    if number is None and (negated := s.node(b, "arith.negf")):
        return s.build("arith.addf", type_, [s.use(a, op), s.use(negated.args[0], op)], op)
    left = s.number(a)
    if left == 0 and _is_negative(left):
        return s.build("arith.negf", type_, [s.use(b, op)], op)
    return None


def multiply(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """x * 1 -> x; x * -1 -> -x; (-x) * (-y) -> x * y; (-x) * c -> x * -c."""
    a, b = s.args(op)
    type_ = op.results[0].type
    for x, y in ((a, b), (b, a)):
        number = s.number(y)
        if number == 1:
            return s.use(x, op)
        if number == -1:
            return s.build("arith.negf", type_, [s.use(x, op)], op)
        if number is not None and (negated := s.node(x, "arith.negf")):
            return s.build("arith.mulf", type_, [s.use(negated.args[0], op), s.constant(-number, type_, op)], op)
    left, right = s.node(a, "arith.negf"), s.node(b, "arith.negf")
    if left and right:
        return s.build("arith.mulf", type_, [s.use(left.args[0], op), s.use(right.args[0], op)], op)
    return None


def divide(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """x / 1 -> x; x / -1 -> -x; x / 2^k -> x * 2^-k, which rounds the same exact quotient."""
    a, b = s.args(op)
    number, type_ = s.number(b), op.results[0].type
    if number == 1:
        return s.use(a, op)
    if number == -1:
        return s.build("arith.negf", type_, [s.use(a, op)], op)
    if number is not None and _power_of_two(float(number), type_):
        return s.build("arith.mulf", type_, [s.use(a, op), s.constant(1 / number, type_, op)], op)
    return None


def negate(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """-(-x) -> x."""
    inner = s.node(s.args(op)[0], "arith.negf")
    return s.use(inner.args[0], op) if inner else None


def absolute(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """|-x| and ||x|| -> |x|."""
    inner = s.node(s.args(op)[0], "arith.negf", "math.absf")
    return s.build("math.absf", op.results[0].type, [s.use(inner.args[0], op)], op) if inner else None


def _is_negative(number: float | int | None) -> bool:
    """Returns whether a float has its sign bit set, as -0.0 has."""
    return isinstance(number, float) and math.copysign(1.0, number) < 0


def _may_drop_zero(s: RewriteScope, op: ir.Operation, x: ScalarRef) -> bool:
    """Returns whether x + 0.0 may become x, although they differ for x = -0.0."""
    return "add-zero" in s.fast_math or never_negative_zero(s, x) or sign_of_zero_ignored(s, op.results[0])


def _power_of_two(number: float, type_: ir.Type) -> bool:
    """Returns whether a number is a power of two whose reciprocal is a normal number of this type."""
    if number == 0 or not math.isfinite(number) or abs(math.frexp(number)[0]) != 0.5:
        return False
    smallest = {"f64": 1022, "f32": 126, "bf16": 126, "f16": 14}.get(str(type_))
    return smallest is not None and abs(math.frexp(number)[1] - 1) <= smallest
