"""Builds the cost model's input (product_cost.GemmWork) for a problem: sizes, epilogue and prologue operations, bytes."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import zip_longest

from torch_mlir import ir

from lamina.core.sizes import typical
from lamina.schedules.nvvm import SECTOR
from lamina.schedules.product_cost import GemmWork
from lamina.schedules.prologue_cost import PrologueWork

from ...ir.affine import Affine
from ...ir.expressions import Apply, Expr, Load
from ...ir.reading import bytes_of, element_bits
from ...space.contraction import FLOAT8, Contraction, Unfit, outside_products
from ...space.schedule import bits
from ...trace.costs import COST
from .problem import BLOCK, GemmProblem, GemmProgram, best_of


def work_of(problem: GemmProblem) -> GemmWork | None:
    """Returns the work of a problem's kernel, or of its first call's where tiles cannot compute both; None if they cannot
    compute the product."""
    with suppress(Unfit), problem.last.context:
        part, made = best_of(problem, BLOCK)
        work = _work(made, part)
        made.erase()
        return work
    return None


def _work(program: GemmProgram, problem: GemmProblem) -> GemmWork:
    product = program.product
    batch, m, n, k = map(typical, (product.batches, *product.sizes))
    after = _computed(*(outside_products(r.expr, product.products) for r in product.results))
    writes = sum(bytes_of(v) for v in program.group.results)
    item, count = 4 if product.factors == "tf32" else bits(product.factors) // 8, len(product.products)
    prologue, has_epilogue = _fed(product, problem.before) if problem.before else None, problem.group is not None
    held_twice = product.factors == FLOAT8 and not problem.is_fast
    has_second_kernel = program.pieces is not None or any(product.stacked)
    return GemmWork(
        batch, m, n, k, *after, writes, has_epilogue, count, item, has_second_kernel, prologue, held_twice, _waste(program)
    )


def _fed(product: Contraction, before: Sequence[ir.Operation]) -> PrologueWork:
    batch, m, n, k = map(typical, (product.batches, *product.sizes))
    groups = [op for op in before if op.name == "graph.group"]
    left, right = (_computed(*(outside_products(e, ()) for e in side)) for side in ([product.a], product.bs))
    stored = sum(bytes_of(op.results[0]) for op in groups)
    reads = sum(bytes_of(v) for v in dict.fromkeys(v for op in groups for v in op.operands))
    return PrologueWork(batch * m * k * left[0], batch * n * k * right[0], reads, stored, len(groups))


def _waste(program: GemmProgram) -> int:
    """Returns the bytes that the epilogue's accesses move besides their elements: whole sectors of memory where these are neighbors
    along neither side of a tile."""
    product = program.product

    def waste(index: Affine, v: ir.Value) -> int:
        """Returns the bytes of one access of all tiles."""
        index = product.merged.index(index)
        steps = [
            abs(typical(index.coefficient(axis))) for axis in (product.m, product.n) if axis is not None and index.coefficient(axis)
        ]
        return bytes_of(v) * (min(min(steps, default=1), max(8 * SECTOR // element_bits(v), 1)) - 1)

    loads = {e for r in product.results for e in outside_products(r.expr, product.products) if isinstance(e, Load)}
    sums = list(zip_longest(product.summed, product.stacked, fillvalue=0))
    stores = [
        (r.offset, v)
        for v, r, (rows, columns) in zip(program.group.results, product.results, sums, strict=True)
        if not rows | columns
    ]
    return sum(waste(e.offset, e.tensor) for e in loads) + sum(waste(at, v) for at, v in stores)


def _computed(*expressions: Sequence[Expr]) -> tuple[int, int]:
    """Returns operations per element, and bytes that are read in total."""
    ops, reads = 0, dict[ir.Value, int]()
    for e in dict.fromkeys(e for one in expressions for e in one):
        if isinstance(e, Apply):
            ops += COST.get(e.op, 1)
        elif isinstance(e, Load):
            reads[e.tensor] = bytes_of(e.tensor)
    return ops, sum(reads.values())
