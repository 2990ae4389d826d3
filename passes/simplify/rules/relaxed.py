"""Rules that change results, each enabled by its name in `fast-math`."""

from torch_mlir import ir

from ..scope import RewriteScope


def exp_of_log(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """exp-log: exp(log x) -> x, also where x < 0 (NaN otherwise)."""
    inner = s.node(s.args(op)[0], "math.log") if "exp-log" in s.fast_math else None
    return s.use(inner.args[0], op) if inner else None


def log_of_exp(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """exp-log: log(exp x) -> x, also where exp x overflows or underflows."""
    inner = s.node(s.args(op)[0], "math.exp") if "exp-log" in s.fast_math else None
    return s.use(inner.args[0], op) if inner else None


def times_zero(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """mul-zero: x * 0 -> 0, also where x is infinite or NaN, and without the sign."""
    if "mul-zero" in s.fast_math and any(s.number(a) == 0 for a in s.args(op)):
        return s.constant(0.0, op.results[0].type, op)
    return None


def self_quotient(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """div-self: x / x -> 1, also where x is 0, infinite or NaN."""
    if "div-self" in s.fast_math and s.same(*s.args(op)):
        return s.constant(1.0, op.results[0].type, op)
    return None
