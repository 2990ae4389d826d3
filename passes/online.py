"""Sums of exp(x - max x) in the same loop as the maximum: what a tile program says of them."""

import math

from torch_mlir import ir
from torch_mlir.dialects import arith

from lamina.schedules.base import BlockConfig

from .emit_tile import Blocks
from .expressions import Reduce


def start(b: Blocks, config: BlockConfig) -> list[ir.Value]:
    """Before the first block: for each thread of the program."""
    type_ = ir.VectorType.get([config.groups], ir.F32Type.get())
    return [arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, _f32(v))) for v in (-math.inf, 0.0)]


def step(b: Blocks, largest: Reduce, state: list[ir.Value]) -> list[ir.Value]:
    """A block of x joins."""
    x = b.block(largest.arg)
    with b.point():
        mask = b.stack[-1].mask
        if mask is not None:
            x = arith.select(mask, x, b.splat(-math.inf, ir.F32Type.get()))
        types = [v.type for v in state]
        return list(ir.Operation.create("tile.exp_sum", results=types, operands=[x, *state]).results)


def total(state: list[ir.Value]) -> list[ir.Value]:
    """The maximum and the sum."""
    f32 = ir.F32Type.get()
    return list(ir.Operation.create("tile.exp_total", results=[f32, f32], operands=state).results)


def _f32(value: float) -> ir.Attribute:
    return ir.FloatAttr.get_f32(value)
