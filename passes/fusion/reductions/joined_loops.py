"""Merges adjacent reduced loops if every operand's elements lie in their order: a single loop can be split into parts of any
length."""

import math
from collections.abc import Sequence
from functools import partial

from torch_mlir import ir

from lamina.core.sizes import typical

from ...ir.extern_calls import memory_strides
from ...ir.generics import empty, generic, with_body
from ...ir.reading import Generic, LinearMap, element_of, identity_map, producer, reduced_loops, shape_of
from ...ir.reshapes import collapse, expand
from ...ir.rewriting import replace_op
from ...ir.sizes import tensor_type
from .partial_reductions import clone_body, emit_combine, entry_expr
from .ragged_parts import terms_of

_MOVES = ("tensor.pad", "tensor.extract_slice", "tensor.insert_slice", "tensor.concat")
"""Ops that are computed where their results are read, at an index for each dimension."""


def join_loops(g: Generic, loops: Sequence[int], replaced: list[ir.Operation]) -> tuple[Generic, dict[int, int]]:
    """Reduces adjacent loops among `loops` as one, as far as every operand's elements lie in their order. Returns the generic that
    does so, or `g`, and the new number of each of g's loops.

    replaced  gets the ops that nothing reads any more, operands first: for the caller to erase once it knows no values of theirs
    """
    numbers = {i: i for i in range(len(g.extents))}
    while (run := _longest(g, [numbers[i] for i in loops])) is not None:
        step = _new_numbers(len(g.extents), run)
        g = _join(g, run, step, replaced)
        numbers = {i: step[n] for i, n in numbers.items()}
    return g, numbers


def _longest(g: Generic, loops: Sequence[int]) -> range | None:
    """Returns the adjacent loops with most iterations that can be one; None if there are none."""
    runs = [
        range(first, end)
        for first in range(len(g.extents))
        for end in range(first + 2, len(g.extents) + 1)
        if {*range(first, end)} <= {*loops} and all(_fits(v, m, range(first, end)) for v, m in g.reads)
    ]
    return max(runs, key=lambda run: typical(math.prod(g.extents[i] for i in run)), default=None)


def _fits(v: ir.Value, m: LinearMap, run: range) -> bool:
    """Returns whether `run` walks adjacent dimensions of a value as one would, or none of it. m: the indexing map of `v`."""
    dims = _walked(m, run)
    if not dims:
        return True
    in_order = dims == [*range(dims[0], dims[0] + len(run))] and all(m[d] == (0, ((i, 1),)) for d, i in zip(dims, run, strict=True))
    return in_order and _collapses(v, range(dims[0], dims[0] + len(run)))


def _collapses(v: ir.Value, dims: range) -> bool:
    """Returns whether dimensions of a value, or of all that it is computed from element by element, lie in memory as one."""
    if (g := _elementwise(v)) is not None:
        indices = [o for o in g.block.operations if o.operation.name == "linalg.index"]
        in_place = all(ir.IntegerAttr(o.attributes["dim"]).value not in dims for o in indices)
        return in_place and all(_fits(o, m, dims) for o, m in g.reads)
    op = producer(v)
    if op is not None and op.name in _MOVES:
        return False
    strides, shape = memory_strides(v), shape_of(v)
    return all(strides[d] == strides[d + 1] * shape[d + 1] for d in dims[:-1])


def _elementwise(v: ir.Value) -> Generic | None:
    """Returns the op that computes a value element by element, for each of its elements in order; None for others."""
    op = producer(v)
    if op is None or op.name != "linalg.generic" or any(reduced_loops(op)) or len(op.results) > 1:
        return None
    g = Generic.read_affine(op)
    return g if g is not None and g.result_map == identity_map(len(g.extents)) else None


def _walked(m: LinearMap, run: range) -> list[int]:
    """Returns the dimensions that loops of `run` walk."""
    return [d for d, (_, terms) in enumerate(m) if any(i in run for i, _ in terms)]


def _new_numbers(rank: int, run: range) -> dict[int, int]:
    """Returns the numbers that loops have when those of `run` are one."""
    return {i: i if i <= run[0] else max(run[0], i - len(run) + 1) for i in range(rank)}


def _join(g: Generic, run: range, numbers: dict[int, int], replaced: list[ir.Operation]) -> Generic:
    op, combine = g.op, g.yields[0].owner.name
    rank = len(g.extents) - len(run) + 1
    with op.location, ir.InsertionPoint(op):
        flattener = _Flattener()
        flat = flattener.of(terms_of(g), run)
        maps = [[ir.AffineDimExpr.get(i) for i in range(rank)], [entry_expr(e, numbers) for e in g.result_map]]
        reduced = [r for i, r in enumerate(g.reduced) if i not in run[1:]]
        joined_op = generic(op.results[0].type, [flat, op.operands[g.inputs]], maps, rank, reduced)
        replace_op(op, with_body(joined_op, partial(emit_combine, combine)))
    replaced += flattener.replace()
    return Generic.read(joined_op)


class _Flattener:
    """Computes elementwise ops with some of their dimensions as one: copies of them, each behind the op, then instead of it."""

    def __init__(self) -> None:
        self._flattened: dict[tuple[ir.Value, int], ir.Value] = {}
        self._copied: dict[ir.Operation, tuple[ir.Value, range]] = {}  # operands first

    def replace(self) -> list[ir.Operation]:
        """Has what else reads the results of ops that were copied read the copies', with the dimensions apart. Returns the ops, of
        which each is read by those after it alone."""
        for op, (copy, dims) in self._copied.items():
            result, shape = op.results[0], shape_of(op.results[0])
            if any(use.owner.operation not in self._copied for use in result.uses):
                with op.location, ir.InsertionPoint.after(copy.owner):
                    result.replace_all_uses_with(expand(copy, shape, _groups(len(shape), dims)))
        return list(self._copied)

    def of(self, v: ir.Value, dims: range) -> ir.Value:
        """Returns a value with these dimensions as one."""
        key = v, dims[0]
        if key not in self._flattened:
            g, op = _elementwise(v), producer(v)
            where = ir.InsertionPoint.at_block_begin(v.owner) if op is None else ir.InsertionPoint.after(op)
            with where, ir.Location.current if op is None else op.location:
                self._flattened[key] = _as_one(v, dims) if g is None else self._copy(g, dims)
        return self._flattened[key]

    def _copy(self, g: Generic, dims: range) -> ir.Value:
        shape, numbers = shape_of(g.op.results[0]), _new_numbers(len(g.extents), dims)
        type_ = tensor_type(
            [math.prod(shape[d] for d in group) for group in _groups(len(shape), dims)], element_of(g.op.results[0].type)
        )
        inputs, maps = [], []
        for v, m in g.reads:
            walked = _walked(m, dims)
            inputs.append(self.of(v, range(walked[0], walked[-1] + 1)) if walked else v)
            maps.append([entry_expr(e, numbers) for d, e in enumerate(m) if d not in walked[1:]])
        rank = len(shape) - len(dims) + 1
        whole = [ir.AffineDimExpr.get(i) for i in range(rank)]
        copy = generic(type_, [*inputs, empty(type_)], [*maps, whole], rank, [False] * rank)
        clone_body(g.op, copy)
        for o in copy.regions[0].blocks[0].operations:
            if o.operation.name == "linalg.index":
                dim = ir.IntegerAttr(o.attributes["dim"])
                o.attributes["dim"] = ir.IntegerAttr.get(dim.type, numbers[dim.value])
        self._copied.setdefault(g.op, (copy.results[0], dims))
        return copy.results[0]


def _as_one(v: ir.Value, dims: range) -> ir.Value:
    """Returns a value in memory with these dimensions as one: what they were split off from, or a view."""
    op, groups = producer(v), _groups(len(shape_of(v)), dims)
    if op is None or op.name != "tensor.expand_shape":
        return collapse(v, groups)
    split = [[d.value for d in group] for group in op.attributes["reassociation"]]
    return op.operands[0] if split == groups else collapse(v, groups)


def _groups(rank: int, dims: range) -> list[list[int]]:
    """Returns the dimensions that become one each."""
    return [*([d] for d in range(dims[0])), [*dims], *([d] for d in range(dims[-1] + 1, rank))]
