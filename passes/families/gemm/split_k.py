"""Split-K: a kernel sums each part of the inner dimension, and a second group adds the parts and computes the epilogue.

It suits products with few output tiles and a long inner dimension.
"""

from collections.abc import Sequence

from torch_mlir import ir

from ...ir.reading import Untraceable
from ...space.contraction import Unfit
from ...space.direct_convolution import WINDOW
from ..conv.implicit_gemm import ImplicitGemm
from ..surroundings import ValueMap, copy_body, group_before, replace_by, space_of
from .contractions import product_in
from .problem import GemmProblem
from .products import Product, read_product
from .prologues import compute_before, erase_before, read_before

Computed = Product | ImplicitGemm


def split_inner(problem: GemmProblem, parts: int) -> ir.Operation:
    """Replaces a problem by a group that sums each of `parts` parts of the inner dimension in f32, which it returns, and a second
    group that adds them, always in the same order, and computes any epilogue. Raises Unfit, with nothing changed, where tiles
    cannot compute the sums."""
    products = [p for op in problem.ops if (p := read_product(op)) is not None]
    inner = products[0].sizes[3]
    if inner % parts:
        raise Unfit(f"an inner dimension of {inner} in {parts} parts")
    sums = _sums(problem, products, parts)
    try:
        product_in(sums)
    except (Unfit, Untraceable) as e:
        sums.erase()
        raise Unfit(str(e)) from None
    if problem.group is None or not _finish(problem, products, list(sums.results), parts, problem.last):
        for op, product, result in zip(problem.ops, products, sums.results, strict=True):
            _finish(GemmProblem((op,), None), [product], [result], parts, problem.last)
    erase_before(problem.before)
    return sums


def _sums(problem: GemmProblem, products: Sequence[Computed], parts: int) -> ir.Operation:
    """Emits the group that sums each part, with the problem's prologues."""

    def fill(values: ValueMap) -> list[ir.Value]:
        """Computes the partial products."""
        compute_before(problem.before, values)
        return [p.sums(values[p.a], values[p.b], parts) for p in products]

    types = [_sums_type(p, parts) for p in products]
    prologue_results = {r for op in problem.before for r in op.results}
    factors = [v for p in products for v in (p.a, p.b) if v not in prologue_results]
    operands = {v: v for v in (*read_before(problem.before), *factors)}
    group = group_before(problem.last, [*problem.before, *problem.ops], operands, types, fill)
    if isinstance(products[0], ImplicitGemm):
        group.attributes[WINDOW] = ir.UnitAttr.get(group.context)
    return group


def _sums_type(product: Computed, parts: int) -> ir.RankedTensorType:
    if isinstance(product, ImplicitGemm):
        return product.sums_type(parts)
    return ir.RankedTensorType.get([parts, *product.result.shape], ir.F32Type.get())


def _finish(problem: GemmProblem, products: Sequence[Computed], sums: Sequence[ir.Value], parts: int, before: ir.Operation) -> bool:
    """Replaces a problem by a group, in front of the op `before`, that adds the parts and computes the epilogue. Returns False, and
    changes nothing, if no kernel can compute that group.

    sums  the products' sums of each part, f32 with the parts as the first dimension
    """
    results = [op.results[0] for op in problem.ops]
    after = [] if problem.group is None else [v for v in problem.group.operands if v not in results]
    operands = {v: v for v in (*sums, *(v for p in products for v in p.after), *after)}

    def fill(values: ValueMap) -> list[ir.Value]:
        """Adds up the parts and computes the epilogue."""
        finished = []
        for product, total in zip(products, sums, strict=True):
            finished.append(product.finish(values[total], [values[v] for v in product.after], parts))
        if problem.group is None:
            return finished
        return copy_body(problem.group, {**values, **dict(zip(results, finished, strict=True))})

    types = [v.type for v in problem.last.results]
    new = group_before(before, [o for o in (*problem.ops, problem.group) if o is not None], operands, types, fill)
    try:
        space_of(new)
    except Untraceable:
        new.erase()
        return False
    replace_by(new.results, problem.group, problem.ops)
    return True
