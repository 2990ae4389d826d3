"""Chooses layouts for kernels' results whose users do not want a particular one: those of the kernel's other tensors (siblings), so
that no kernel transposes."""

import math
from collections import Counter
from collections.abc import Collection, Container, Mapping, Sequence

from torch_mlir import ir

from lamina.core.layout import Layout
from lamina.core.sizes import SizeLike, typical

from ..ir.affine import in_order, order_of
from ..ir.reading import Generic, bytes_of, ops_in, shape_of, terminator
from ..ir.views import RESHAPES, is_view, view_layout
from ..trace.orders import PLACES

Strides = tuple[SizeLike, ...]
"""Strides in elements; 0 along a dimension that a value does not vary along."""


def like_siblings(
    op: ir.Operation, wanted: Sequence[Layout | None], rows: Container[ir.Value], operands: Sequence[Layout]
) -> list[Layout]:
    """Returns the layouts of a kernel's results.

    A result whose users want no layout gets the order of dimensions that most bytes of the kernel's other tensors of its shape
    have, unless the kernel itself transposes. If there are none of its shape, it inherits the order of the elements that it is
    computed from.

    wanted    the layout that users want of each result; None if they want none
    rows      results to leave row-major if no operand has their shape
    operands  the layouts of the kernel's operands
    """
    pairs = zip(op.results, wanted, strict=True)
    return [layout or _like_most(op, result, wanted, operands, result in rows) for result, layout in pairs]


def _like_most(
    op: ir.Operation, result: ir.Value, layouts: Sequence[Layout | None], operands: Sequence[Layout], rows: bool
) -> Layout:
    """Returns the layout of a result whose users want none. layouts: those of all results, if known; rows: whether to leave it
    row-major if no operand has its shape."""
    shape = shape_of(result)
    plain = Layout.row_major(shape)
    orders: Counter[tuple[int, ...]] = Counter()
    for value, layout in zip((*op.results, *op.operands), (*layouts, *operands), strict=True):
        if layout is not None and shape_of(value) == shape and layout.is_dense:
            orders[order_of(layout.strides)] += bytes_of(value)
    largest = max((typical(math.prod(x.shape)) for x in operands), default=0)
    inherits = typical(math.prod(shape)) < largest or (typical(math.prod(shape)) == largest and not rows)
    strides = _inherited(op, operands).get(_yielded(op, result)) if inherits and not orders else None
    if strides is not None and all(s or n == 1 for s, n in zip(strides, shape, strict=True)):
        return Layout.of(shape, in_order(shape, order_of(strides)))
    if not orders or not (keeps_order(op, len(shape)) or _only_regroups(op, shape)):
        return plain
    return Layout.of(shape, in_order(shape, max(orders, key=orders.__getitem__)))


def _yielded(op: ir.Operation, result: ir.Value) -> ir.Value:
    """Returns the value in a kernel's body that it yields as `result`."""
    end = terminator(op.regions[0].blocks[0])
    return end.operands[list(op.results).index(result)]


def _inherited(op: ir.Operation, operands: Sequence[Layout]) -> dict[ir.Value, Strides]:
    """Returns the strides that values of a kernel's body inherit from the operands: along each dimension, the stride in memory of
    the largest tensor that varies along it.

    A value has none if strides cannot express the view that it is. Nor has a value that is placed along a dimension in which its
    source has size 1 or stride 0, as its order among the other dimensions is then undecided.
    """
    body = op.regions[0].blocks[0]
    strides_of = {v: layout.strides for v, layout in zip(body.arguments, operands, strict=True)}
    for inner in ops_in(body):
        if len(inner.results) == 1 and isinstance(inner.results[0].type, ir.RankedTensorType):
            strides = _passed_on(inner, strides_of)
            strides_of.update({} if strides is None else {inner.results[0]: strides})
    return strides_of


def _passed_on(inner: ir.Operation, strides_of: Mapping[ir.Value, Strides]) -> Strides | None:
    """Returns the strides that an op's result inherits from operands; None if it inherits none. strides_of: those known so far."""
    shape = shape_of(inner.results[0])
    strides = strides_of.get(inner.operands[0]) if len(inner.operands) else None
    if is_view(inner) and strides is not None:
        layout = view_layout(inner, Layout.of(shape_of(inner.operands[0]), strides))
        return None if layout is None else tuple(layout.strides)
    if inner.name in PLACES and strides is not None:
        part = shape_of(inner.operands[0])
        is_clear = all((s and m != 1) or n == 1 for s, m, n in zip(strides, part, shape, strict=True))
        return in_order(shape, order_of(strides)) if is_clear else None
    if inner.name != "linalg.generic" or (g := Generic.read_affine(inner)) is None:
        return None
    steps: dict[int, int] = {}
    for v, m in sorted(((v, m) for v, m in g.reads if v in strides_of), key=lambda x: -bytes_of(x[0])):
        for stride, (_, terms) in zip(strides_of[v], m, strict=True):
            if len(terms) == 1 and terms[0][0] not in steps:
                steps[terms[0][0]] = stride * terms[0][1]
    loops = [terms[0][0] if len(terms) == 1 else -1 for _, terms in g.result_map]
    is_clear = all(steps.get(loop) or n == 1 for loop, n in zip(loops, shape, strict=True))
    return tuple(steps.get(loop, 0) for loop in loops) if is_clear else None


def keeps_order(op: ir.Operation, rank: int) -> bool:
    """Returns whether a kernel reads all tensors of this rank in the order of dimensions of its results. Dimensions of size 1 may
    be added and dropped in between."""
    inner = ops_in(op.regions[0].blocks[0])
    ranks = {rank, *(len(shape_of(v)) for o in inner if _only_units(o) for v in (o.operands[0], o.results[0]))}
    return all(_keeps_order(o, ranks) for o in inner)


def _only_units(op: ir.Operation) -> bool:
    """Returns whether an op only adds or drops dimensions of size 1."""
    if op.name not in RESHAPES:
        return False
    before, after = ([n for n in shape_of(v) if n != 1] for v in (op.operands[0], op.results[0]))
    return before == after


def _keeps_order(op: ir.Operation, ranks: Collection[int]) -> bool:
    """Returns whether an op of a kernel's body reads tensors of these ranks in the order of dimensions of its result."""
    if not any(isinstance(v.type, ir.RankedTensorType) and v.type.rank in ranks for v in op.operands):
        return True
    if op.name != "linalg.generic":
        return _only_units(op) or op.name not in ("linalg.transpose", *RESHAPES)
    maps = [m.value for m in ir.ArrayAttr(op.attributes["indexing_maps"])]
    dims = [[d.position for d in m.results if isinstance(d, ir.AffineDimExpr)] for m in maps]
    return all(d == sorted(d) for d in dims)


def _only_regroups(op: ir.Operation, shape: tuple[int, ...]) -> bool:
    """Returns whether a kernel that reshapes tensors of this shape restores the shape and moves no element in between, like a group
    norm."""
    inner = ops_in(op.regions[0].blocks[0])
    views = [o for o in inner if o.name in ("tensor.expand_shape", "tensor.collapse_shape")]
    ends = [v for o in views for v in (o.operands[0], o.results[0]) if len(shape_of(v)) == len(shape)]
    return all(shape_of(v) == shape for v in ends) and all(_moves_nothing(o) for o in inner if o not in views)


def _moves_nothing(op: ir.Operation) -> bool:
    """Returns whether an op reads every tensor in the order of dimensions of its result, at the positions of its loops."""
    if op.name.startswith("tensor.") and op.name != "tensor.empty":
        return False
    body = [o.operation for region in op.regions for block in region.blocks for o in block.operations]
    if any(o.name in ("linalg.index", "tensor.extract") for o in body):
        return False
    return all(_keeps_order(op, {v.type.rank}) for v in op.operands if isinstance(v.type, ir.RankedTensorType))
