"""Finds GEMM prologues: pointwise groups that only GEMMs read, as operands. The kernel can compute these on the blocks it loads."""

from collections.abc import Sequence

from torch_mlir import ir

from ...ir.reading import ops_in, producer
from ...ir.rewriting import copy_ops
from ...ir.views import WHOLE_VIEWS
from ..choice import CHOICE
from ..surroundings import ValueMap, copy_body
from .block_sums import is_reduction
from .products import Product


def prologue_of(ops: Sequence[ir.Operation]) -> tuple[ir.Operation, ...]:
    """Returns the prologue of some products, in program order: the pointwise groups with one result that only these products read,
    as operands, and the views in between. A group that is the only user of another product is left to that one, as its epilogue."""
    prologue: dict[ir.Operation, None] = {}
    for op in ops:
        product = Product.read(op)
        for factor in (product.a, product.b) if product is not None else ():
            chain = _chain(factor)
            if chain and _is_all_for(chain[0].results[0], ops):
                prologue.update(dict.fromkeys(chain))
    position = {op: i for i, op in enumerate(ops_in(ops[0].block))} if prologue else {}
    return tuple(sorted(prologue, key=lambda op: position[op]))


def read_before(before: Sequence[ir.Operation]) -> list[ir.Value]:
    """Returns the values that a prologue reads."""
    computed = {r for op in before for r in op.results}
    return list(dict.fromkeys(v for op in before for v in op.operands if v not in computed))


def compute_before(before: Sequence[ir.Operation], values: ValueMap) -> None:
    """Clones the ops of a prologue at the insertion point. values: maps what the ops read to new values, and gets their
    results."""
    for op in before:
        if op.name != "graph.group":
            copy_ops([op], values)
        else:
            values.update(zip(op.results, copy_body(op, values), strict=True))


def erase_before(before: Sequence[ir.Operation]) -> None:
    """Erases a prologue, except ops that still have users, such as shared empty tensors."""
    for op in reversed(before):
        if not list(op.results[0].uses):
            op.erase()


def _chain(factor: ir.Value) -> list[ir.Operation]:
    """Returns the pointwise group that computes an operand, the views between and their empty tensors; [] if there is no group."""
    views: list[ir.Operation] = []
    op = producer(factor)
    while op is not None and op.name in WHOLE_VIEWS:
        views += [op, *(o for v in op.operands if (o := producer(v)) is not None and o.name == "tensor.empty")]
        op = producer(op.operands[0])
    return [op, *reversed(views)] if op is not None and _is_pointwise(op) else []


def _is_pointwise(op: ir.Operation) -> bool:
    if op.name != "graph.group" or CHOICE in op.attributes or len(op.results) != 1:
        return False
    products = [m for v in op.operands if (m := producer(v)) is not None and Product.read(m) is not None]
    follows = any(len({use.owner for use in m.results[0].uses}) == 1 for m in products)
    return not follows and not any(is_reduction(o.operation) for o in op.regions[0].blocks[0].operations)


def _is_all_for(v: ir.Value, ops: Sequence[ir.Operation]) -> bool:
    """Returns whether only these calls read a value, directly or through views, and as an operand a or b."""
    for use in v.uses:
        user = use.owner.operation
        if user.name in WHOLE_VIEWS:
            if not _is_all_for(user.results[0], ops):
                return False
            continue
        product = Product.read(user)
        if user not in ops or product is None or v in product.after:
            return False
    return True
