"""Splits a loop of a reduction into parts of which the last may have fewer iterations, for symbolic sizes."""

from collections.abc import Sequence
from functools import partial

from torch_mlir import ir
from torch_mlir.dialects import arith

from lamina.core.sizes import SizeLike, maximum, minimum

from ...ir.generics import empty, generic, padded, with_body
from ...ir.reading import Generic, identity_map, neutral_element, shape_of
from ...ir.rewriting import copy_ops, replace_op
from ...ir.sizes import number_attribute, tensor_type
from .partial_reductions import emit_combine, entry_expr, split_loops


def ragged_parts(n: SizeLike, wanted: SizeLike, multiple: int = 1) -> tuple[SizeLike, SizeLike]:
    """Returns how many parts a loop of `n` iterations has, at most `wanted`, and their length, a multiple of `multiple`. The last
    parts may be empty."""
    parts = maximum(1, minimum(wanted, n))
    return parts, maximum(1, -(-n // (parts * multiple))) * multiple


def split_ragged(
    g: Generic, loop: int, parts: SizeLike, length: SizeLike, deferred: Sequence[int], order: Sequence[int], combine: str
) -> None:
    """Splits a reduced loop into `parts` of `length` iterations, which together are at least its own: what the others add is
    `combine`'s neutral element. A second op reduces the partial results. deferred, order: see `partial_reductions.split_loops`."""
    op = g.op
    element = ir.RankedTensorType(op.results[0].type).element_type
    with op.location, ir.InsertionPoint(op):
        terms = terms_of(g)
        extra = [parts * length - n if i == loop else 0 for i, n in enumerate(g.extents)]
        filler = arith.constant(element, number_attribute(neutral_element(combine, str(element)), element))
        whole = padded(terms, [0] * len(extra), extra, filler)
        maps = [[ir.AffineDimExpr.get(i) for i in range(len(extra))], [entry_expr(e) for e in g.result_map]]
        total = generic(op.results[0].type, [whole, op.operands[g.inputs]], maps, len(extra), list(g.reduced))
        replace_op(op, with_body(total, partial(emit_combine, combine)))
    split_loops(Generic.read(total), {loop: parts}, deferred, order, combine)


def terms_of(g: Generic) -> ir.Value:
    """Emits the values that a generic combines, one per iteration, as a tensor with a dimension for each loop."""
    combined = g.yields[0].owner
    block, accumulator = g.block, g.block.arguments[g.inputs]
    term = next(v for v in combined.operands if v != accumulator)
    everything = identity_map(len(g.extents))
    for argument, (operand, m) in zip(block.arguments, g.reads, strict=False):
        if term == argument and m == everything and shape_of(operand) == tuple(g.extents):
            return operand
    type_ = tensor_type(g.extents, term.type)
    maps = [[entry_expr(e) for e in m] for m in (*g.maps[: g.inputs], everything)]
    terms = generic(type_, [*(v for v, _ in g.reads), empty(type_)], maps, len(g.extents), [False] * len(g.extents))

    def body(*elements: ir.Value) -> ir.Value:
        """Copies the ops that make the term."""
        values = dict(zip(block.arguments, elements, strict=True))
        copy_ops([o for o in list(block.operations)[:-1] if o.operation != combined], values)
        return values.get(term, term)

    return with_body(terms, body)
