"""Rewrites a reduction as two steps, partial results and their combination: `split_loops` splits loops into equal parts,
`reduce_in_two` peels the remainder off a loop whose extent has no good divisor."""

from collections.abc import Mapping, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith

from lamina.core.sizes import SizeLike

from ...ir.generics import empty, fill, generic, with_body
from ...ir.reading import Generic, neutral_element, shape_of
from ...ir.reshapes import expand, sliced
from ...ir.rewriting import copy_ops, replace_op
from ...ir.sizes import number_attribute, tensor_type


def reduce_in_two(g: Generic, loop: int, first: SizeLike, rest: SizeLike, combine: str) -> Generic:
    """Reduces the first `first` iterations of a loop and the remaining `rest` by separate ops, and combines their results.

    combine  the op that combines two results, such as "arith.addf"

    Returns the op that reduces the first iterations.
    """
    op = g.op
    type_ = ir.RankedTensorType(op.results[0].type)
    maps = [[entry_expr(entry) for entry in m] for m in g.maps]
    halves = []
    with op.location, ir.InsertionPoint(op):
        for start, length in ((0, first), (first, rest)):
            ins = [slice_of_loop(v, m, loop, start, length) for v, m in g.reads]
            init = op.operands[g.inputs] if start == 0 else neutral_fill(type_, combine)
            half = generic(type_, [*ins, init], maps, len(g.extents), list(g.reduced))
            clone_body(op, half)
            halves.append(half)
        whole = [ir.AffineDimExpr.get(d) for d in range(type_.rank)]
        operands = [*(half.results[0] for half in halves), empty(type_)]
        total = generic(type_, operands, [whole] * 3, type_.rank, [False] * type_.rank)
        replace_op(op, with_body(total, lambda a, b, _: emit_combine(combine, a, b)))
    return Generic.read(halves[0])


def slice_of_loop(v: ir.Value, m: tuple, loop: int, start: SizeLike, length: SizeLike) -> ir.Value:
    """Returns the slice of `v` that a loop reads in `length` iterations from `start`. m: the indexing map of `v`."""
    is_indexed = [any(i == loop for i, _ in terms) for _, terms in m]
    if not any(is_indexed):
        return v
    shape = shape_of(v)
    offsets = [start if i else 0 for i in is_indexed]
    sizes = [length if i else n for i, n in zip(is_indexed, shape, strict=True)]
    return sliced(v, offsets, sizes, [1] * len(shape))


def split_loops(
    g: Generic, parts: dict[int, SizeLike], deferred: Sequence[int], order: Sequence[int], combine: str
) -> ir.Operation:
    """Splits each loop of `parts` in two, reduces only the inner ones, and reduces the partial results by a second op, which it
    returns.

    parts     for each loop to split, the iterations of the outer of the two: how many partial results there are
    deferred  reduced loops to leave to the second op, so that each of their iterations has a partial result
    order     all loops, in the order in which the partial results lie in memory
    combine   the op that combines two results, such as "arith.addf"
    """
    op, out = g.op, g.op.operands[g.inputs]
    element = ir.RankedTensorType(op.results[0].type).element_type
    cuts = parts | {loop: g.extents[loop] for loop in deferred}
    # A loop of `cuts` becomes two: the outer one, which is not reduced, and the inner one, which is.
    reduced = [r for i in order for r in ([False, True] if i in cuts else [g.reduced[i]])]
    outer = {i: position + sum(j in cuts for j in order[:position]) for position, i in enumerate(order)}
    inner = {i: position + (i in cuts) for i, position in outer.items()}
    partial_loops = [i for i in order if i in cuts or not g.reduced[i]]
    with op.location, ir.InsertionPoint(op):
        ins, maps = [], []
        for v, m in g.reads:
            expanded, results = _expand(v, m, cuts, outer, inner)
            ins.append(expanded)
            maps.append(results)
        type_ = tensor_type([cuts.get(i, g.extents[i]) for i in partial_loops], element)
        maps.append([ir.AffineDimExpr.get(outer[i]) for i in partial_loops])
        partial = generic(type_, [*ins, neutral_fill(type_, combine)], maps, len(reduced), reduced)
        clone_body(op, partial)
        whole = [ir.AffineDimExpr.get(position) for position in range(len(partial_loops))]
        result = [entry_expr(entry, {i: position for position, i in enumerate(partial_loops)}) for entry in g.result_map]
        total = generic(
            op.results[0].type, [partial.results[0], out], [whole, result], len(partial_loops), [i in cuts for i in partial_loops]
        )
        replace_op(op, with_body(total, lambda a, b: emit_combine(combine, a, b)))
    return total


def entry_expr(entry: tuple[int, tuple[tuple[int, int], ...]], numbers: Mapping[int, int] | None = None) -> ir.AffineExpr:
    """Returns the affine expression of an indexing map's result.

    entry    the constant and the (loop, factor) terms
    numbers  new numbers of the loops; None keeps them
    """
    constant, terms = entry
    out = ir.AffineConstantExpr.get(constant)
    for i, k in terms:
        out = out + ir.AffineDimExpr.get(numbers[i] if numbers is not None else i) * k
    return out


def _expand(
    v: ir.Value, m: tuple, cuts: dict[int, SizeLike], outer: dict[int, int], inner: dict[int, int]
) -> tuple[ir.Value, list[ir.AffineExpr]]:
    """Splits each dimension of `v` that a loop of `cuts` indexes in two. Returns the expanded tensor and its indexing map. outer,
    inner: the new numbers of the two loops that each loop becomes."""
    shape = shape_of(v)
    new_shape: list[SizeLike] = []
    groups: list[list[int]] = []
    results: list[ir.AffineExpr] = []
    for n, entry in zip(shape, m, strict=True):
        groups.append([len(new_shape)])
        loop = next((i for i, _ in entry[1] if i in cuts), None)
        if loop is not None:
            groups[-1].append(len(new_shape) + 1)
            new_shape += [cuts[loop], n // cuts[loop]]
            results += [ir.AffineDimExpr.get(outer[loop]), ir.AffineDimExpr.get(inner[loop])]
        else:
            new_shape.append(n)
            results.append(entry_expr(entry, inner))
    if len(new_shape) == len(shape):
        return v, results
    return expand(v, new_shape, groups), results


def neutral_fill(type_: ir.RankedTensorType, combine: str) -> ir.Value:
    """Emits a tensor filled with the neutral element of `combine`."""
    value = number_attribute(neutral_element(combine, str(type_.element_type)), type_.element_type)
    if not type_.has_static_shape:
        return fill(type_, arith.constant(type_.element_type, value))
    return arith.constant(type_, ir.DenseElementsAttr.get_splat(type_, value))


def clone_body(source: ir.Operation, target: ir.Operation) -> None:
    """Clones the body of a generic with one result into another, whose block arguments have the same types."""

    def body(*elements: ir.Value) -> ir.Value:
        """Copies the ops of the source's body."""
        block = source.regions[0].blocks[0]
        values = dict(zip(block.arguments, elements, strict=True))
        *ops, end = block.operations
        copy_ops(ops, values)
        return values.get(end.operands[0], end.operands[0])

    with_body(target, body)


def emit_combine(combine: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emits the op `combine` on two values of one type."""
    return ir.Operation.create(combine, results=[a.type], operands=[a, b]).results[0]
