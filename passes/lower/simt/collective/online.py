"""Lowers online softmax: the sum of exp(x - max x) in one pass over x. Each thread keeps the largest x so far and the sum relative
to it (M. Milakov and N. Gimelshein, Online normalizer calculation for softmax, 2018).

If every x is -inf, so is the maximum. Exponentials are then taken relative to 0, so that the sum is 0 and not NaN.
"""

import math
from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from ..values import Spread, binary_op, elements, join_as_tree, per_part, vector_of, vector_type
from .exchange import Exchange
from .reductions import reduce_in_thread

if TYPE_CHECKING:
    from ..kernel import ThreadKernel

_max, _add = binary_op("arith.maximumf"), binary_op("arith.addf")


def accumulate(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers tile.exp_sum: updates a thread's maximum and sum with a block, and returns the block's exponentials."""
    x, largest, total = (k.spread(v) for v in op.operands)
    old, before = (elements(v.parts[0])[0] for v in (largest, total))
    new = _max(old, reduce_in_thread(x, _max))
    zero = _finite(new)
    base = vector.broadcast(x.parts[0].type, zero)
    powers = per_part(lambda part: exp(arith.subf(part, base)), x)
    after = arith.addf(arith.mulf(before, exp(arith.subf(old, zero))), reduce_in_thread(powers, _add))
    k.values[op.results[0]] = powers
    k.values[op.results[1]], k.values[op.results[2]] = Spread((vector_of([new]),)), Spread((vector_of([after]),))


def finish(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers tile.exp_total: returns the maximum and the sum over the whole program, and the factor that rescales the thread's own
    exponentials to that maximum."""
    largest, total = (elements(k.spread(v).parts[0])[0] for v in op.operands)
    exchange, shape, own_largest = k.exchange, k.shape, largest
    largest, total = _join_lanes(exchange, largest, total, min(shape.threads, shape.warp))
    if shape.threads > shape.warp:
        largest, total = exchange.among_warps([largest, total])
        largest, total = _join_lanes(exchange, largest, total, shape.threads // shape.warp)
    if shape.cluster > 1:
        every_largest, every_total = exchange.among_ctas([largest, total])
        largest = join_as_tree(every_largest, _max)
        zero = _finite(largest)
        scaled = [arith.mulf(t, exp(arith.subf(m, zero))) for m, t in zip(every_largest, every_total, strict=True)]
        total = join_as_tree(scaled, _add)
    scale = exp(arith.subf(own_largest, _finite(largest)))
    k.values[op.results[0]], k.values[op.results[1]], k.values[op.results[2]] = largest, total, Spread((vector_of([scale]),))


def lanes(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers tile.lanes: broadcasts a thread's value to all its lanes."""
    (part,) = k.spread(op.operands[0]).parts
    (value,) = elements(part)
    wide = vector.broadcast(vector_type(k.shape.vec, value.type), value)
    k.values[op.results[0]] = Spread((wide,) * k.shape.chunks)


def _join_lanes(exchange: Exchange, largest: ir.Value, total: ir.Value, lanes: int) -> tuple[ir.Value, ir.Value]:
    """Combines the maxima and sums of `lanes` neighboring threads of a warp."""
    top = exchange.among_lanes(largest, _max, lanes)
    scaled = arith.mulf(total, exp(arith.subf(largest, _finite(top))))
    return top, exchange.among_lanes(scaled, _add, lanes)


def _finite(x: ir.Value) -> ir.Value:
    """Returns 0 for -inf, else x."""
    lowest = arith.constant(x.type, -math.inf)
    return arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, x, lowest), arith.constant(x.type, 0.0), x)


def exp(x: ir.Value) -> ir.Value:
    """Returns the exponential of a number or vector."""
    return ir.Operation.create("math.exp", results=[x.type], operands=[x]).results[0]
