"""Finds dimension orders of values in memory: elementwise sources, innermost dimensions, and those that libraries prefer."""

import math
from collections.abc import Callable, Iterable, Sequence

from torch_mlir import ir

from lamina.core.layout import Layout
from lamina.core.sizes import typical
from lamina.dialects.graph import CALLS

from ..ir.affine import row_major
from ..ir.reading import Generic, elements_of, identity_map, ops_in, producer, shape_of
from ..ir.sizes import read_sizes
from ..ir.views import SINGLE_VIEWS, is_view, layout_through, source_strides, through_views

LARGE = 1 << 16  # elements; smaller tensors stay in caches

PLACES = ("tensor.pad", "tensor.insert_slice", "tensor.concat")  # operands in a larger tensor
_WIDENING = ("arith.extf", "arith.extsi", "arith.extui", "arith.sitofp", "arith.uitofp")

Read = Callable[[ir.Operation], Generic | None]


def wanted_images(op: ir.Operation) -> dict[ir.Value, int]:
    """Maps to dimension 1 each large image of a library call that gives channels last, as it then takes them so, too."""
    if op.name not in CALLS:
        return {}
    strides = [s for s in op.attributes["strides"] if not isinstance(s, ir.TypeAttr)]
    images = [(shape_of(v), read_sizes(s)) for v, s in zip(op.results, strides, strict=True) if len(s) == 4]
    if not any(innermost_of(shape, given) == 1 for shape, given in images if shape[2:] != (1, 1)):
        return {}
    return dict.fromkeys((v for v in op.operands if len(shape_of(v)) == 4 and elements_of(v) >= LARGE), 1)


def wanted_rows(op: ir.Operation) -> dict[ir.Value, int]:
    """Maps each large value behind the views that a function returns, or that a library call takes after dimensions were collapsed,
    to its innermost dimension in the memory that is asked for there."""
    innermost: dict[ir.Value, int] = {}
    for v, strides in _asked(op):
        collapsed = False
        while strides is not None and (view := producer(v)) is not None and is_view(view):
            collapsed |= view.name == "tensor.collapse_shape"
            strides, v = source_strides(view, strides), view.operands[0]
        inner = innermost_of(shape_of(v), strides) if strides is not None else None
        if inner is not None and elements_of(v) >= LARGE and (collapsed or op.name == "func.return"):
            innermost[v] = inner
    return innermost


def _asked(op: ir.Operation) -> list[tuple[ir.Value, tuple[int, ...] | None]]:
    """Returns the tensors that a return or a library call takes, with the strides asked for: row-major ones for a call."""
    if op.name in CALLS and "needs" not in op.attributes:
        return [(v, row_major(shape_of(v))) for v in tensors(op.operands)]
    attributes = op.parent.attributes if op.name == "func.return" and op.parent is not None else {}
    if "res_attrs" not in attributes:
        return []
    pairs = zip(op.operands, ir.ArrayAttr(attributes["res_attrs"]), strict=True)
    return [(v, read_sizes(a["graph.strides"]) if "graph.strides" in a else None) for v, a in pairs]


def behind_widening(v: ir.Value) -> ir.Value:
    """Returns the source of `v` behind widening casts: it holds the same values in less memory."""
    op = producer(v)
    while op is not None and op.name == "linalg.generic" and len(op.operands) == 2 and shape_of(op.operands[0]) == shape_of(v):
        body = ops_in(op.regions[0].blocks[0])
        maps = [ir.AffineMapAttr(m).value for m in op.attributes["indexing_maps"]]
        if len(body) != 2 or body[0].name not in _WIDENING or body[0].operands[0] != op.regions[0].blocks[0].arguments[0]:
            break
        if maps[0] != maps[1] or body[1].operands[0] != body[0].results[0]:
            break
        v = op.operands[0]
        op = producer(v)
    return v


def chain_of(v: ir.Value, read: Read) -> list[ir.Value]:
    """Returns `v` and the computed values that it is mapped from, as long as each has a single source of the same shape."""
    chain: list[ir.Value] = []
    while (op := producer(v)) is not None and (mapped := map_of(op, read)):
        chain.append(v)
        source = next(iter(mapped))
        if len(mapped) > 1 or shape_of(source) != shape_of(v):
            break
        v = source
    return chain


def map_of(op: ir.Operation, read: Read) -> dict[ir.Value, list[int]] | None:
    """Returns the operands that an op maps element by element, and for each of their dimensions that of the result; None for an op
    of another kind. Ops that place a tensor in a larger one, such as a pad, map it, too."""
    if op.name in PLACES[:2] and len(shape_of(op.operands[0])) == len(shape_of(op.results[0])):
        return {op.operands[0]: list(range(len(shape_of(op.operands[0]))))}
    g = read(op) if op.name == "linalg.generic" and len(op.results) == 1 else None
    if g is None or any(g.reduced) or g.result_map != identity_map(len(g.extents)):
        return None
    whole = {v: m for v, m in g.reads if math.prod(shape_of(v)) == math.prod(g.extents)}
    plain = {
        v: m for v, m in whole.items() if all(not terms or (c == 0 and len(terms) == 1 and terms[0][1] == 1) for c, terms in m)
    }
    return {v: [terms[0][0] if terms else 0 for _, terms in m] for v, m in plain.items()}


def tensors(values: Iterable[ir.Value]) -> list[ir.Value]:
    """Returns the values that are ranked tensors."""
    return [v for v in values if isinstance(v.type, ir.RankedTensorType)]


def innermost_of(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """Returns the dimension that is contiguous in memory; None if fewer than two have more than one element, or elements are
    repeated."""
    sides = [(s, -i) for i, (s, n) in enumerate(zip(map(typical, strides), shape, strict=True)) if n != 1]
    return -min(sides)[1] if len(sides) > 1 and all(s for s, _ in sides) else None


def behind_views(v: ir.Value) -> ir.Value:
    """Returns the value behind a chain of views."""
    return through_views(v, SINGLE_VIEWS)[1]


def strides_through_views(v: ir.Value, strides_of: Callable[[ir.Value], tuple[int, ...] | None]) -> tuple[int, ...] | None:
    """Returns the strides of a value seen through its views; None if those of its source are unknown, or a view cannot be
    expressed as strides."""
    views, base = through_views(v, SINGLE_VIEWS)
    strides = strides_of(base)
    layout = None if strides is None else layout_through(views, Layout.of(shape_of(base), strides))
    return None if layout is None else layout.strides
