"""Reduces blocks that are spread over threads to scalars that all threads know.

In registers first, then by shuffles among the threads of a warp, then through shared memory among warps, then among the CTAs of a
cluster. The order depends on the shape alone, so that results are the same in every run. Adjacent reductions share their
barriers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from ..values import Spread, elements
from .exchange import Exchange

COMBINE = {
    "add": ("arith.addf", "arith.addi"), "mul": ("arith.mulf", "arith.muli"), "minimumf": ("arith.minimumf", ""),
    "maximumf": ("arith.maximumf", ""), "minnumf": ("arith.minnumf", ""), "maxnumf": ("arith.maxnumf", ""),
    "minsi": ("", "arith.minsi"), "maxsi": ("", "arith.maxsi"), "minui": ("", "arith.minui"), "maxui": ("", "arith.maxui"),
    "and": ("", "arith.andi"), "or": ("", "arith.ori"), "xor": ("", "arith.xori"),
}  # fmt: skip
Combine = Callable[[ir.Value, ir.Value], ir.Value]


@dataclass(frozen=True)
class Reduction:
    """One reduction of a block.

    block  the thread's part
    kind   of vector.reduction: add, maximumf, ...
    """

    block: Spread
    kind: str

    def combine(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """Combines two values by this reduction's kind."""
        return combine(self.kind, a, b)


def combine(kind: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """Combines two scalars or vectors by a kind of vector.reduction."""
    element = ir.VectorType(a.type).element_type if isinstance(a.type, ir.VectorType) else a.type
    name = COMBINE[kind][0 if isinstance(element, ir.FloatType) else 1]
    return ir.Operation.create(name, results=[a.type], operands=[a, b]).results[0]


def tree(values: Sequence[ir.Value], join: Combine) -> ir.Value:
    """Joins all values as a tree: pairs, pairs of pairs, ..."""
    left = list(values)
    while len(left) > 1:
        half = [join(a, b) for a, b in zip(left[::2], left[1::2], strict=False)]
        left = half + left[len(half) * 2 :]
    return left[0]


def own(block: Spread, join: Combine) -> ir.Value:
    """Reduces the part of a block that one thread holds to a scalar."""
    return tree(elements(tree(block.parts, join)), join)


def reduce(wanted: list[Reduction], exchange: Exchange) -> list[ir.Value]:
    """Emits reductions together and returns their totals, known to every thread of the program."""
    shape = exchange.shape
    values = [exchange.among_lanes(own(r.block, r.combine), r.combine, min(shape.threads, shape.warp)) for r in wanted]
    if shape.threads > shape.warp:
        seen = exchange.among_warps(values)
        values = [exchange.among_lanes(v, r.combine, shape.threads // shape.warp) for r, v in zip(wanted, seen, strict=True)]
    if shape.cluster > 1:
        values = [tree(v, r.combine) for r, v in zip(wanted, exchange.among_ctas(values), strict=True)]
    return values
