"""Emits the remainder of a division of f32, as fmod: exactly."""

from torch_mlir import ir

from ...ir.emit import Emit, Num

BITS = 50  # of the quotient, removed in one iteration


def remf(x: Num, y: Num) -> Num:
    """Emits a loop in f64, which takes one iteration where the quotient is below 2**50, and six at most for operands of f32; a
    vector takes those of the lane that needs most.

    r = |x|, b = |y|; while r >= b: r -= trunc(r/t)*t with t = b * 2**k, k >= 0 such that r/t < 2**51. Every step is exact.
    """
    e, own = x.emitter, x.element
    a, b = (v.to(ir.F64Type.get()).abs() for v in (x, y))
    r = e.wrap(_while(e, a, b).results[0])
    r = r.where((a < float("inf")) & (b > 0.0), r.like(float("nan")))
    r = r.where(y.compare("ord", y), r.like(float("nan")))
    return r.to(own).copysign(x)


def _while(e: Emit, a: Num, b: Num) -> ir.Operation:
    type_ = a.value.type
    loop = ir.Operation.create("scf.while", [type_], [a.value], regions=2, loc=e.loc, ip=e.ip)
    before, after = (region.blocks.append(type_) for region in loop.regions)
    test, body = (Emit(ir.InsertionPoint(block), e.loc, e.shape) for block in (before, after))
    r = test.wrap(before.arguments[0])
    go = (r >= test.wrap(b.value)) & (r < float("inf")) & (test.wrap(b.value) > 0.0)
    test.op("scf.condition", [], [test.any(go).value, r.value])
    body.op("scf.yield", [], [_turn(body.wrap(after.arguments[0]), body.wrap(b.value)).value])
    return loop


def _turn(r: Num, b: Num) -> Num:
    e = r.emitter
    excess = (r.bits() >> 52) - (b.bits() >> 52) - BITS
    t = (b.bits() + (excess.where(excess > 0, 0) << 52)).as_float()
    n = e.make("math.trunc", r.value.type, r / t)
    left = e.fma(-n, t, r)
    return (left + t).where(left < 0.0, left).where(r >= b, r)  # lanes that are done: b may be infinite
