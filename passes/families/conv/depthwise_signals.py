"""Makes 1-D depthwise convolutions of f32, and their gradients, those of row-major images of one row."""

import math

from torch_mlir import ir

from lamina.core.layout import Layout
from lamina.core.sizes import is_symbolic
from lamina.kernels.library import CONVOLUTION, CONVOLUTION_BACKWARD

from ...ir.extern_calls import declared_strides
from ...ir.generics import copied
from ...ir.reading import element_type, shape_of
from ..surroundings import group_before, strides_of
from .calls import MOST_TAPS, has_fixed_window
from .one_row import call_with_row


def as_image(op: ir.Operation) -> ir.Operation:
    """Replaces a call that Lamina's kernels can compute as one of images; returns any other call as it is. Signals whose columns
    are not neighbors in memory are copied: these kernels, and oneDNN's, read rows."""
    first = _numbers_at(op)
    if first is None or not _suits(op, first):
        return op
    for i, v in enumerate(op.operands):
        if len(shape_of(v)) == 3 and strides_of(v)[-1] != 1:
            op.operands[i] = _row_major(op, v)
    return call_with_row(op, first)


def _row_major(op: ir.Operation, v: ir.Value) -> ir.Value:
    return group_before(op, [op], {v: v}, [v.type], lambda values: [copied(values[v])], "copy").results[0]


def _numbers_at(op: ir.Operation) -> int | None:
    """Returns where the stride is among a convolution's arguments; None for other calls."""
    return {CONVOLUTION: 3, CONVOLUTION_BACKWARD: 4}.get(ir.StringAttr(op.attributes["callee"]).value)


def _suits(op: ir.Operation, first: int) -> bool:
    values = (*op.operands, *op.results)
    image, weight = op.operands[first - 3 : first - 1]
    if len(shape_of(image)) != 3 or {element_type(v) for v in values} != {"f32"} or any(0 in shape_of(v) for v in values):
        return False
    how = list(ir.ArrayAttr(op.attributes["args"]))[first : first + 6]
    if not has_fixed_window(how) or ir.BoolAttr(how[3]).value or is_symbolic((*shape_of(weight), *shape_of(image)[1:])):
        return False
    groups, shape = ir.IntegerAttr(how[5]).value, shape_of(weight)
    small = groups == shape_of(image)[1] == shape[0] and math.prod(shape[1:]) <= MOST_TAPS
    return small and all(Layout.of(shape_of(v), declared_strides(v)).is_row_major for v in op.results)
