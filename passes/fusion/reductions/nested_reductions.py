"""Merges a reduction of a reduction's results into one over the loops of both. torch-mlir lowers a reduction of several dimensions
as a chain of such reductions."""

from torch_mlir import ir

from lamina.core.sizes import at_most

from ...ir.generics import generic
from ...ir.reading import REDUCERS, Generic, element_type, neutral_element, number_of, producer, shape_of
from .partial_reductions import clone_body, entry_expr

Entry = tuple[int, tuple[tuple[int, int], ...]]
"""An index over loops: a constant, and the number and the factor of each loop."""


def merge_nested(block: ir.Block) -> None:
    """Merges each reduction into the one that reads its results, where both combine alike and nothing else reads them.

    %r = max(%x : tensor<8x4x5xf32>) -> tensor<8x4xf32> ; %s = max(%r) -> tensor<8xf32>
    -> %s = max(%x) -> tensor<8xf32>, over both loops
    """
    for view in list(block.operations):
        op = view.operation
        while op.name == "linalg.generic" and (merged := _merge(op)) is not None:
            op = merged


def _merge(op: ir.Operation) -> ir.Operation | None:
    """Merges the reduction that `op` reads into it; returns the new op, or None if there is none."""
    outer = read_reduction(op)
    source = op.operands[0]
    maker = producer(source)
    if outer is None or maker is None or maker.name != "linalg.generic" or len(list(source.uses)) != 1:
        return None
    inner, combine = read_reduction(maker), combiner(outer)
    if inner is None or combine is None or combiner(inner) != combine or outer.inputs != 1 or source.type != maker.results[0].type:
        return None
    if len(list(outer.block.operations)) != 2 or op.results[0].type.element_type != source.type.element_type:
        return None
    if not starts_neutral(inner, combine) or any(o.operation.name == "linalg.index" for o in inner.block.operations):
        return None
    loops = _loops(inner, outer)
    if loops is None:
        return None
    return _replace(inner, outer, loops)


def read_reduction(op: ir.Operation) -> Generic | None:
    """Returns a generic with one result that reduces something; None for any other op."""
    g = Generic.read_affine(op) if len(op.results) == 1 else None
    return g if g is not None and any(g.reduced) else None


def combiner(g: Generic) -> str | None:
    """Returns the op by which a reduction combines what it has with each new element; None if it does anything else with it."""
    last, acc = producer(g.yields[0]), g.block.arguments[g.inputs]
    if last is None or last.name not in REDUCERS or len([o for o in last.operands if o == acc]) != 1:
        return None
    return str(last.name) if len(list(acc.uses)) == 1 else None


def starts_neutral(g: Generic, combine: str) -> bool:
    """Returns whether a reduction starts with the neutral element of its combiner."""
    return number_of(g.op.operands[g.inputs]) == neutral_element(combine, element_type(g.op.results[0]))


def _loops(inner: Generic, outer: Generic) -> list[Entry] | None:
    """Returns the index that replaces each loop of the inner reduction: an index over the loops of the outer one, then those that
    only the inner one has. None if the inner results are not read one by one."""
    index_of: dict[int, Entry] = {}
    read: set[int] = set()
    for n, result_index, (constant, terms) in zip(shape_of(outer.op.operands[0]), inner.result_map, outer.maps[0], strict=True):
        single = len(terms) == 1 and terms[0][1] == 1 and constant == 0 and terms[0][0] not in read
        if not single and (not at_most(n, 1) or terms or constant):
            return None
        read.update(loop for loop, _ in terms)
        if result_index[1]:
            index_of[result_index[1][0][0]] = (constant, terms)
    own = [i for i, reduced in enumerate(inner.reduced) if reduced]
    index_of.update({i: (0, ((len(outer.extents) + j, 1),)) for j, i in enumerate(own)})
    return [index_of[i] for i in range(len(inner.extents))] if len(index_of) == len(inner.extents) else None


def _replace(inner: Generic, outer: Generic, loops: list[Entry]) -> ir.Operation:
    """Writes the reduction over the loops of both in the place of the outer one. Its loops are in the order of the first operand's
    dimensions, without those of one iteration that walked nothing but a dimension that the inner one kept."""
    reads = [[_composed(entry, loops) for entry in m] for m in inner.maps[: inner.inputs]]
    reduced = [*outer.reduced, *[True] * sum(inner.reduced)]
    walked = [loop for m in reads for _, terms in m for loop, _ in terms]
    order = list(dict.fromkeys([*walked, *(i for i, n in enumerate(outer.extents) if not at_most(n, 1))]))
    at = {old: new for new, old in enumerate(order)}
    maps = [[entry_expr((c, tuple((at[i], k) for i, k in terms if i in at))) for c, terms in m] for m in (*reads, outer.maps[1])]
    op, ins = outer.op, list(inner.op.operands)[: inner.inputs]
    with op.location, ir.InsertionPoint(op):
        new = generic(op.results[0].type, [*ins, op.operands[1]], maps, len(order), [reduced[i] for i in order])
        clone_body(inner.op, new)
    op.results[0].replace_all_uses_with(new.results[0])
    for dead in (op, inner.op, producer(inner.op.operands[inner.inputs])):
        if dead is not None and not any(list(v.uses) for v in dead.results):
            dead.erase()
    return new


def _composed(entry: Entry, loops: list[Entry]) -> Entry:
    """Returns an index over the inner loops as one over the merged loops."""
    constant, terms = entry
    inside = [(c * k, tuple((loop, factor * k) for loop, factor in by)) for (c, by), k in ((loops[i], k) for i, k in terms)]
    return constant + sum(c for c, _ in inside), tuple(term for _, by in inside for term in by)
