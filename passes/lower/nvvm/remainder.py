"""Lowers arith.remf exactly, as fmod: LLVM's own expansion for GPUs is wrong for large quotients."""

from torch_mlir import ir

from ...ir.emit import Emit, Num, replace
from .lanes import per_lane

BITS = 50  # of the quotient, removed in one iteration


def lower_remainder(op: ir.Operation) -> None:
    """Lowers arith.remf to a loop in f64, which takes one iteration where the quotient is below 2**50, and six at most for
    operands of f32.

    r = |x|, b = |y|; while r >= b: r -= trunc(r/t)*t with t = b * 2**k, k >= 0 such that r/t < 2**51. Every step is exact.
    """
    replace(op, per_lane(op, _remainder))


def _remainder(x: Num, y: Num) -> Num:
    e, own = x.emitter, x.element
    a, b = (v.to(ir.F64Type.get()).abs() for v in (x, y))
    r = e.wrap(_while(e, a, b).results[0])
    r = r.where((a < float("inf")) & (b > 0.0), r.like(float("nan")))
    r = r.where(y.compare("ord", y), r.like(float("nan")))
    return r.to(own).copysign(x)


def _while(e: Emit, a: Num, b: Num) -> ir.Operation:
    f64 = ir.F64Type.get()
    loop = ir.Operation.create("scf.while", [f64], [a.value], regions=2, loc=e.loc, ip=e.ip)
    before, after = (region.blocks.append(f64) for region in loop.regions)
    test, body = (Emit(ir.InsertionPoint(block), e.loc) for block in (before, after))
    r = test.wrap(before.arguments[0])
    go = (r >= test.wrap(b.value)) & (r < float("inf")) & (test.wrap(b.value) > 0.0)
    test.op("scf.condition", [], [go.value, r.value])
    body.op("scf.yield", [], [_turn(body.wrap(after.arguments[0]), body.wrap(b.value)).value])
    return loop


def _turn(r: Num, b: Num) -> Num:
    e = r.emitter
    excess = (r.bits() >> 52) - (b.bits() >> 52) - BITS
    t = (b.bits() + (excess.where(excess > 0, 0) << 52)).as_float()
    n = e.make("math.trunc", r.value.type, r / t)
    left = e.fma(-n, t, r)
    return (left + t).where(left < 0.0, left)
