"""Online softmax in tile programs: emits the sum of exp(x - max x) in the same loop as the maximum (tile.exp_sum,
tile.exp_total)."""

import math
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith

from lamina.schedules.base import BlockConfig

from ..ir.expressions import Apply, Expr, Reduce
from .emit.blocks import Blocks


def start(config: BlockConfig) -> list[ir.Value]:
    """Returns the state before the first block: -inf and 0 for each thread of the program."""
    type_ = ir.VectorType.get([config.groups], ir.F32Type.get())
    return [arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, ir.FloatAttr.get_f32(v))) for v in (-math.inf, 0.0)]


def step(b: Blocks, largest: Reduce, state: list[ir.Value]) -> tuple[ir.Value, list[ir.Value]]:
    """Adds a block of x to the state; returns the block's exponentials and the new state."""
    x = b.masked(largest.arg, -math.inf)
    with b.point():
        powers, *new = ir.Operation.create("tile.exp_sum", results=[x.type, *(v.type for v in state)], operands=[x, *state]).results
        return powers, new


def total(state: list[ir.Value]) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Returns the maximum, the sum, and the factor by which each thread's exponentials are rescaled."""
    f32 = ir.F32Type.get()
    largest, sum_, scale = ir.Operation.create("tile.exp_total", results=[f32, f32, state[0].type], operands=state).results
    return largest, sum_, scale


def reuse_exponentials(
    powers: ir.Value, sum_: ir.Value, scale: ir.Value, pair: tuple[Reduce, Reduce], wanted: list[Expr], memo: dict[Any, ir.Value]
) -> None:
    """Computes exp(x - max x) from the exponentials of the loop, where one block held the whole row: it takes one multiplication,
    and so does its quotient by the sum, which is at least 1, so that its reciprocal loses nothing. pair: the maximum and the sum;
    wanted: expressions used later, which are put into `memo`."""
    power = pair[1].arg
    for e in wanted:
        if e is power:
            memo[e] = arith.mulf(powers, _lanes(scale, powers.type))
        elif isinstance(e, Apply) and e.op == "arith.divf" and e.operands == (power, pair[1]):
            unit = arith.constant(sum_.type, 1.0)
            inverse = arith.divf(unit, sum_)
            factor = arith.mulf(scale, _wide(inverse, scale.type))
            memo[e] = arith.mulf(powers, _lanes(factor, powers.type))


def _lanes(threads: ir.Value, type_: ir.Type) -> ir.Value:
    return ir.Operation.create("tile.lanes", results=[type_], operands=[threads]).results[0]


def _wide(value: ir.Value, type_: ir.Type) -> ir.Value:
    return ir.Operation.create("vector.broadcast", results=[type_], operands=[value]).results[0]
