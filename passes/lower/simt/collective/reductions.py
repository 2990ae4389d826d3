"""Reduces blocks that are spread over threads to scalars that all threads know.

A block is reduced in registers first, then by shuffles among the threads of a warp, then through shared memory among warps, then
among the CTAs of a cluster. The order depends on the shape alone, so that results are the same in every run. Adjacent reductions
share their barriers.
"""

from dataclasses import dataclass

from torch_mlir import ir

from ..values import Join, Spread, elements, join_as_tree
from .exchange import Exchange


@dataclass(frozen=True)
class Reduction:
    """One reduction of a block.

    block  the thread's part
    join   combines two values
    """

    block: Spread
    join: Join


def reduce_in_thread(block: Spread, join: Join) -> ir.Value:
    """Reduces the part of a block that one thread holds to a scalar."""
    return join_as_tree(elements(join_as_tree(block.parts, join)), join)


def reduce(wanted: list[Reduction], exchange: Exchange) -> list[ir.Value]:
    """Emits reductions together and returns their totals, known to every thread of the program."""
    shape = exchange.shape
    values = [exchange.among_lanes(reduce_in_thread(r.block, r.join), r.join, min(shape.threads, shape.warp)) for r in wanted]
    if shape.threads > shape.warp:
        seen = exchange.among_warps(values)
        values = [exchange.among_lanes(v, r.join, shape.threads // shape.warp) for r, v in zip(wanted, seen, strict=True)]
    if shape.cluster > 1:
        values = [join_as_tree(v, r.join) for r, v in zip(wanted, exchange.among_ctas(values), strict=True)]
    return values
