"""Functions for whose vectors upstream has no lowering: integer powers, and the test for infinity."""

from torch_mlir import ir

from ...ir.emit import Emit, Num


def isinf(x: Num) -> Num:
    """Returns whether x is infinite."""
    return x.abs().compare("oeq", float("inf"))


def fpowi_by_library(x: Num, n: Num) -> Num:
    """x**n with an integer n, as math.powf of the rounded n, which the C library computes."""
    return x.emitter.make("math.powf", x.value.type, x, n.cast("arith.sitofp", x.element))


def ipowi(x: Num, n: Num) -> Num:
    """x**n of integers, wrapping, by squaring: one step for every bit of n. For a negative n it is the fraction rounded to zero:
    1 for x = 1, 1 or -1 for x = -1, else 0."""
    e = x.emitter
    index = ir.IndexType.get()
    outside = Emit(e.ip, e.loc)
    low, high, step = (outside.constant(v, index).value for v in (0, x.element.width, 1))
    one = x.like(1)
    inits = [one.value, x.value, n.value]
    loop = ir.Operation.create("scf.for", [v.type for v in inits], [low, high, step, *inits], regions=1, loc=e.loc, ip=e.ip)
    block = loop.regions[0].blocks.append(index, *[v.type for v in inits])
    body = Emit(ir.InsertionPoint(block), e.loc, e.shape)
    result, base, left = (body.wrap(v) for v in list(block.arguments)[1:])
    odd = (left & 1).compare("ne", 0)
    values = [(result * base).where(odd, result), base * base, left.shr(1)]
    body.op("scf.yield", [], [v.value for v in values])
    power = e.wrap(loop.results[0])
    unit = x.compare("eq", 1) | x.compare("eq", -1)
    return power.where((n >= 0) | unit, 0)
