"""Replaces the sum of a term that does not vary along a loop by a product with the loop's extent, as in the bias gradient of a
mean."""

import math

from torch_mlir import ir
from torch_mlir.dialects import arith

from lamina.core.sizes import is_symbolic

from ...ir.affine import Affine
from ...ir.axes import Axes
from ...ir.generics import empty, generic, with_body
from ...ir.reading import Generic, nested, number_of, producer, shape_of
from ...ir.rewriting import copy_ops, replace_op
from ...ir.sizes import number_attribute
from ...ir.views import groups, source_index
from .nested_reductions import combiner, read_reduction, starts_neutral
from .partial_reductions import clone_body, entry_expr, slice_of_loop

_PRODUCTS = {"arith.addf": arith.mulf, "arith.addi": arith.muli}
_IDEMPOTENT = {
    "arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf", "arith.maxsi", "arith.minsi", "arith.maxui",
    "arith.minui", "arith.andi", "arith.ori",
}  # fmt: skip
_VIEWS = ("linalg.transpose", "linalg.broadcast", "tensor.expand_shape", "tensor.extract_slice", "tensor.cast")
_COUNTED = 32  # bits from which on a float holds every count below 2^24 and loses no more than a sum does

Dims = frozenset[int]


def reduce_repeated_once(block: ir.Block) -> None:
    """Reduces a value once where it is the same in all iterations of a reduced loop: a sum becomes a product with their number.

    %b = broadcast %x : tensor<8xf32> to tensor<8x4xf32> ; %s = sum(%b) -> tensor<8xf32>   ->   %s = %x * 4.0

    Loops of symbolic size are left as they are, as are sums of floats narrower than 32 bits, which do not hold every number.
    """
    varying: dict[ir.Value, Dims] = {}
    for view in list(block.operations):
        op = view.operation
        if op.name == "linalg.generic" and (g := read_reduction(op)) is not None:
            _reduce(g, varying)
        elif len(op.results) == 1 and isinstance(op.results[0].type, ir.RankedTensorType):
            varying[op.results[0]] = _varying(op, varying)


def _reduce(g: Generic, varying: dict[ir.Value, Dims]) -> None:
    """Rewrites a reduction without the loops along which nothing varies that it reads."""
    combine = combiner(g)
    if combine is None or _reads_positions(g.op) or not starts_neutral(g, combine):
        return
    element = ir.RankedTensorType(g.op.results[0].type).element_type
    if combine not in _IDEMPOTENT and (combine not in _PRODUCTS or element.width < _COUNTED):
        return
    repeats = [i for i, reduced in enumerate(g.reduced) if reduced and g.extents[i] != 1 and _repeats(g, i, varying)]
    count = math.prod(g.extents[i] for i in repeats)
    if not repeats or count == 0:
        return
    with g.op.location, ir.InsertionPoint(g.op):
        total = _without_repeats(g, repeats)
        if combine in _PRODUCTS:
            total = _times(total, count, combine)
        replace_op(g.op, total)


def _repeats(g: Generic, loop: int, varying: dict[ir.Value, Dims]) -> bool:
    """Returns whether every operand is the same in all iterations of a loop."""
    if is_symbolic(g.extents[loop]):
        return False
    for value, entries in g.reads:
        for dim, (_, terms) in enumerate(entries):
            if any(i == loop for i, _ in terms) and (dim in _dims(value, varying) or len(terms) > 1):
                return False
    return True


def _dims(value: ir.Value, varying: dict[ir.Value, Dims]) -> Dims:
    """Returns the dimensions along which a value may vary: all, where nothing else is known."""
    return varying.get(value, frozenset(range(len(shape_of(value)))))


def _varying(op: ir.Operation, varying: dict[ir.Value, Dims]) -> Dims:
    """Returns the dimensions along which the result of an op may vary."""
    result = op.results[0]
    whole = frozenset(range(len(shape_of(result))))
    if number_of(result) is not None:
        return frozenset()
    if op.name == "tensor.collapse_shape":
        source = _dims(op.operands[0], varying)
        return frozenset(d for d, group in enumerate(groups(op)) if source.intersection(group))
    if op.name in _VIEWS:
        axes = Axes(shape_of(result))
        index: tuple[Affine, ...] = source_index(op, axes.index)
        used = {t for d in _dims(op.operands[0], varying) for t, _ in index[d].terms}
        return frozenset(d for d, axis in enumerate(axes.axes) if axis in used)
    if op.name != "linalg.generic" or _reads_positions(op) or (g := Generic.read_affine(op)) is None or any(g.reduced):
        return whole
    loops: set[int] = set()
    for value, entries in g.reads:
        if isinstance(value.type, ir.RankedTensorType):
            loops.update(i for dim in _dims(value, varying) for i, _ in entries[dim][1])
    return frozenset(d for d, (_, terms) in enumerate(g.result_map) if any(i in loops for i, _ in terms))


def _reads_positions(op: ir.Operation) -> bool:
    """Returns whether the body of a generic uses the numbers of its loops, reads tensors at computed indices, or draws numbers."""
    return bool(nested(op, "linalg.index", "tensor.extract", "random.bits"))


def _without_repeats(g: Generic, repeats: list[int]) -> ir.Value:
    """Emits the reduction over the other loops alone; what is reduced itself, where none of them is a reduction."""
    new_loop = {old: new for new, old in enumerate(i for i in range(len(g.extents)) if i not in repeats)}
    ins = [_first(v, m, repeats) for v, m in g.reads]
    maps = [[entry_expr((c, tuple((new_loop[i], k) for i, k in terms if i in new_loop))) for c, terms in m] for m in g.maps]
    reduced = [g.reduced[i] for i in new_loop]
    type_ = ir.RankedTensorType(g.op.results[0].type)
    init = g.op.operands[g.inputs] if any(reduced) else empty(type_)
    new = generic(type_, [*ins, init], maps, len(new_loop), reduced)
    if any(reduced):
        clone_body(g.op, new)
    else:
        _clone_terms(g, new)
    return new.results[0]


def _first(v: ir.Value, m: tuple, repeats: list[int]) -> ir.Value:
    """Returns the slice of an operand in the first iteration of these loops, which keeps its rank."""
    for loop in repeats:
        v = slice_of_loop(v, m, loop, 0, 1)
    return v


def _clone_terms(g: Generic, new: ir.Operation) -> None:
    """Gives `new` the body of a reduction up to what it adds to its accumulator."""
    accumulator, last = g.block.arguments[g.inputs], producer(g.yields[0])
    assert last is not None, "combiner holds"
    (term,) = (v for v in last.operands if v != accumulator)

    def body(*elements: ir.Value) -> ir.Value:
        """Copies the ops that make the term."""
        values = dict(zip(g.block.arguments, elements, strict=True))
        copy_ops([o.operation for o in g.block.operations if o.operation != last][:-1], values)
        return values.get(term, term)

    with_body(new, body)


def _times(total: ir.Value, count: int, combine: str) -> ir.Value:
    """Emits the product of each element with a number."""
    type_ = ir.RankedTensorType(total.type)
    identity = [ir.AffineDimExpr.get(d) for d in range(type_.rank)]
    op = generic(type_, [total, empty(type_)], [identity] * 2, type_.rank, [False] * type_.rank)
    number = number_attribute(count, type_.element_type)
    return with_body(op, lambda x, _: _PRODUCTS[combine](x, arith.constant(type_.element_type, number)))
