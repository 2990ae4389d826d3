"""Analyses of signed zeros: which values are never -0.0, and which uses do not see a zero's sign."""

import math

from torch_mlir import ir

from ...ir.reading import number_of, reduced_loops
from ..scalars import ScalarRef
from ..scope import RewriteScope

_NO_SIGN = {"math.exp", "math.exp2", "math.absf", "math.erfc", "math.cosh", "arith.uitofp"}
"""Ops whose results have no sign bit, whatever their operands are."""
_KEEP_SIGN = {"math.sqrt", "arith.extf", "arith.truncf", "math.log1p", "math.tanh", "math.erf", "math.expm1"}
"""Ops whose result has the sign bit of the operand, and is a zero for a zero."""
_ZERO_TO_ZERO = _KEEP_SIGN | {"arith.negf", "math.sin", "math.tan", "math.floor", "math.ceil", "math.trunc"}
"""Ops that make a zero of a zero, whose sign depends on the operand's."""
_BLIND = {"math.exp", "math.exp2", "math.absf", "math.cosh", "math.cos", "math.erfc", "arith.cmpf", "math.log", "arith.fptosi"}
"""Ops whose result is the same for both zeros."""


def never_negative_zero(s: RewriteScope, ref: ScalarRef, depth: int = 5) -> bool:
    """Returns whether `ref` is known not to be -0.0."""
    number = s.number(ref)
    if number is not None:
        return number != 0 or math.copysign(1.0, number) > 0
    node = s.node(ref)
    if node is None or depth == 0:
        return False
    if sign_clear(s, ref, depth):
        return True
    name, args = node.name, node.args
    if name == "arith.sitofp":
        return True
    if name == "arith.addf":  # only -0.0 + -0.0 is -0.0
        return any(never_negative_zero(s, a, depth - 1) for a in args)
    if name == "arith.subf":  # only -0.0 - 0.0 is
        return never_negative_zero(s, args[0], depth - 1)
    if name == "arith.select":
        return all(never_negative_zero(s, a, depth - 1) for a in args[1:])
    if name in ("arith.maximumf", "arith.minimumf"):
        return all(never_negative_zero(s, a, depth - 1) for a in args)
    return False


def sign_clear(s: RewriteScope, ref: ScalarRef, depth: int = 5) -> bool:
    """Returns whether the sign bit of `ref` is known to be clear (or `ref` is NaN)."""
    number = s.number(ref)
    if number is not None:
        return math.copysign(1.0, number) > 0
    node = s.node(ref)
    if node is None or depth == 0:
        return False
    name, args = node.name, node.args
    if name in _NO_SIGN:
        return True
    if name == "arith.mulf" and s.same(*args):
        return True
    if name in ("arith.mulf", "arith.divf", "arith.addf", "arith.minimumf", "math.rsqrt") or name in _KEEP_SIGN:
        return all(sign_clear(s, a, depth - 1) for a in args)
    if name == "arith.maximumf":
        return any(sign_clear(s, a, depth - 1) for a in args)
    return name == "arith.select" and all(sign_clear(s, a, depth - 1) for a in args[1:])


def sign_of_zero_ignored(s: RewriteScope, value: ir.Value, depth: int = 6) -> bool:
    """Returns whether every use of `value`, a scalar of a body, gives the same result for 0.0 and -0.0, as far as uses are
    followed."""
    return depth > 0 and all(_ignores(s, use.owner.operation, use.operand_number, depth) for use in value.uses)


def _ignores(s: RewriteScope, user: ir.Operation, position: int, depth: int) -> bool:
    """Returns whether an op's result is the same for 0.0 and -0.0 as this operand, as far as its uses are followed."""
    name = user.name
    if name in _BLIND:
        return True
    if name == "linalg.yield":
        return _tensor_ignores(s, user.block.owner.operation, position, depth - 1)
    if len(user.results) != 1:
        return False
    operands = list(user.operands)
    if name == "arith.mulf" and operands[0] == operands[1]:
        return True
    if name in _ZERO_TO_ZERO or name == "arith.mulf" or (name == "arith.select" and position > 0):
        return sign_of_zero_ignored(s, user.results[0], depth - 1)
    if name in ("arith.addf", "arith.maximumf", "arith.minimumf") or (name == "arith.subf" and position == 1):
        number = number_of(operands[1 - position])
        if number is None:
            return False
        if number != 0:
            return name in ("arith.addf", "arith.subf") or sign_of_zero_ignored(s, user.results[0], depth - 1)
        negative = math.copysign(1.0, number) < 0
        return negative if name == "arith.minimumf" else not negative
    return name == "arith.subf" and number_of(operands[1]) not in (None, 0)


def _tensor_ignores(s: RewriteScope, op: ir.Operation, result: int, depth: int) -> bool:
    """Returns whether all uses of a result of a generic, which have to be inputs of generics, give the same for both zeros."""
    if any(reduced_loops(op)):
        return False
    for use in op.results[result].uses:
        user = use.owner.operation
        if user.name != "linalg.generic" or depth <= 0:
            return False
        arg = user.regions[0].blocks[0].arguments[use.operand_number]
        if not sign_of_zero_ignored(s, arg, depth):
            return False
    return True
