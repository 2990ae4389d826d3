"""Splits a loop of a reduction into parts of which the last may have fewer iterations, for sizes that each call decides."""

import math
from collections.abc import Sequence
from functools import partial

from torch_mlir import ir
from torch_mlir.dialects import arith

from lamina.core.layout import Layout
from lamina.core.sizes import SizeLike, least, most

from ..ir.extern_calls import memory_strides
from ..ir.generics import empty, generic, padded, with_body
from ..ir.reading import Generic, element_of, neutral, producer, reduced_loops, shape_of
from ..ir.reshapes import collapse
from ..ir.rewriting import copy_ops, replace_op
from ..ir.sizes import number_attribute, tensor_type
from .partial_reductions import applied, clone_body, shifted, split

_MOVES = ("tensor.pad", "tensor.extract_slice", "tensor.insert_slice", "tensor.concat")
"""Ops that are computed where their results are read, at an index for each dimension."""


def ragged(n: SizeLike, wanted: SizeLike, multiple: int = 1) -> tuple[SizeLike, SizeLike]:
    """Returns how many parts a loop of `n` iterations has, at most `wanted`, and their length, a multiple of `multiple`. The last
    parts may be empty."""
    parts = most(1, least(wanted, n))
    return parts, most(1, -(-n // (parts * multiple))) * multiple


def joined(g: Generic) -> Generic:
    """Reduces the innermost loops, where all of them are reduced, as one, if every operand's elements are in their order; returns
    the generic that does so, or `g`."""
    kept, extents = max((i + 1 for i, r in enumerate(g.reduced) if not r), default=0), tuple(g.extents)
    groups = [*([i] for i in range(kept)), list(range(kept, len(extents)))]
    inputs = list(zip(g.op.operands, g.maps[: g.inputs], strict=False))
    if len(extents) - kept < 2 or not all(_in_order(v, extents, m) for v, m in inputs):
        return g
    op, combine = g.op, g.yields[0].owner.name
    with op.location, ir.InsertionPoint(op):
        flat = _Joined(groups).of(_terms(g))
        maps = [[ir.AffineDimExpr.get(i) for i in range(kept + 1)], [shifted(e, 0) for e in g.maps[g.inputs]]]
        one = generic(op.results[0].type, [flat, op.operands[g.inputs]], maps, kept + 1, [*g.reduced[:kept], True])
        replace_op(op, with_body(one, partial(applied, combine)))
    return Generic.read(one)


class _Joined:
    """Copies elementwise ops with some of their dimensions as one."""

    def __init__(self, groups: list[list[int]]) -> None:
        """groups: the dimensions that become one of the copies' each."""
        self._groups = groups
        self._made: dict[ir.Value, ir.Value] = {}

    def of(self, v: ir.Value) -> ir.Value:
        """Returns a value with the dimensions of the copies."""
        if v not in self._made:
            self._made[v] = self._copy(v) if shape_of(v) else v
        return self._made[v]

    def _copy(self, v: ir.Value) -> ir.Value:
        op = producer(v)
        if op is None or op.name != "linalg.generic" or any(reduced_loops(op)):
            return collapse(v, self._groups)
        inputs, rank = [self.of(o) for o in list(op.operands)[:-1]], len(self._groups)
        type_ = tensor_type([math.prod(shape_of(v)[d] for d in dims) for dims in self._groups], element_of(v.type))
        whole = [ir.AffineDimExpr.get(i) for i in range(rank)]
        maps = [whole if shape_of(o) else [] for o in inputs]
        made = generic(type_, [*inputs, empty(type_)], [*maps, whole], rank, [False] * rank)
        clone_body(op, made)
        return made.results[0]


def _in_order(v: ir.Value, extents: tuple[SizeLike, ...], m: tuple) -> bool:
    """Returns whether the loops read a value, and all that it is computed from element by element, in row-major order."""
    if m != _everything(len(extents)) or shape_of(v) != extents:
        return shape_of(v) == ()
    op = producer(v)
    g = Generic.read_affine(op) if op is not None and op.name == "linalg.generic" else None
    if g is None or any(g.reduced):
        moved = op is not None and op.name in _MOVES
        return not moved and memory_strides(v) == Layout.row_major(extents).strides
    inputs = zip(g.op.operands, g.maps[: g.inputs], strict=False)
    return len(g.op.results) == 1 and g.maps[-1] == m and all(_in_order(o, extents, n) for o, n in inputs)


def split_ragged(
    g: Generic, loop: int, parts: SizeLike, length: SizeLike, apart: Sequence[int], order: Sequence[int], combine: str
) -> None:
    """Splits a reduced loop into `parts` of `length` iterations, which together are at least its own: what the others add is
    `combine`'s neutral element. Reduces the partial results by a second op. apart, order: see `split`."""
    op = g.op
    element = ir.RankedTensorType(op.results[0].type).element_type
    with op.location, ir.InsertionPoint(op):
        terms = _terms(g)
        extra = [parts * length - n if i == loop else 0 for i, n in enumerate(g.extents)]
        filler = arith.constant(element, number_attribute(neutral(combine, str(element)), element))
        whole = padded(terms, [0] * len(extra), extra, filler)
        maps = [[ir.AffineDimExpr.get(i) for i in range(len(extra))], [shifted(e, 0) for e in g.maps[g.inputs]]]
        total = generic(op.results[0].type, [whole, op.operands[g.inputs]], maps, len(extra), list(g.reduced))
        replace_op(op, with_body(total, partial(applied, combine)))
    split(Generic.read(total), {loop: parts}, apart, order, combine)


def _terms(g: Generic) -> ir.Value:
    """Returns what a generic combines in each of its iterations, as a tensor with a dimension for each loop."""
    combined = g.yields[0].owner
    block, accumulator = g.block, g.block.arguments[g.inputs]
    term = next(v for v in combined.operands if v != accumulator)
    everything = _everything(len(g.extents))
    for argument, operand, m in zip(block.arguments, g.op.operands, g.maps[: g.inputs], strict=False):
        if term == argument and m == everything and shape_of(operand) == tuple(g.extents):
            return operand
    type_ = tensor_type(g.extents, term.type)
    maps = [*([shifted(e, 0) for e in m] for m in g.maps[: g.inputs]), [shifted(e, 0) for e in everything]]
    made = generic(type_, [*list(g.op.operands)[: g.inputs], empty(type_)], maps, len(g.extents), [False] * len(g.extents))

    def body(*elements: ir.Value) -> ir.Value:
        """Copies the ops that make the term."""
        values = dict(zip(block.arguments, elements, strict=True))
        copy_ops([o for o in list(block.operations)[:-1] if o.operation != combined], values)
        return values.get(term, term)

    return with_body(made, body)


def _everything(loops: int) -> tuple:
    """Returns the map of an operand with a dimension for each loop, in order."""
    return tuple((0, ((i, 1),)) for i in range(loops))
