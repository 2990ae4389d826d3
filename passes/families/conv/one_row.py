"""Converts images of one row, (batch, channels, 1, columns), and convolutions of them, to and from (batch, channels, columns)."""

from collections.abc import Sequence

from torch_mlir import ir

from lamina.core.sizes import SizeLike

from ...ir.affine import row_major
from ...ir.extern_calls import call_like, declared_strides, encoded
from ...ir.reading import callee_of, shape_of
from ...ir.reshapes import collapse, expand
from ...ir.sizes import sizes_attribute, sizes_of, tensor_type
from .calls import FIRST_NUMBER

_PLACES = [[0], [1], [2, 3]]


def without_row(shape: tuple[SizeLike, ...]) -> tuple[SizeLike, ...] | None:
    """Returns the shape of an image without its only row; None if it has more rows."""
    return (*shape[:2], shape[3]) if shape[2] == 1 else None


def with_row(type_: ir.Type) -> ir.RankedTensorType:
    """Returns the type (batch, channels, 1, columns) for (batch, channels, columns)."""
    batch, channels, columns = sizes_of(type_)
    return tensor_type([batch, channels, 1, columns], ir.RankedTensorType(type_).element_type)


def row_added(v: ir.Value) -> ir.Value:
    """Emits the expansion to an image of one row."""
    return expand(v, sizes_of(with_row(v.type)), _PLACES)


def row_dropped(v: ir.Value) -> ir.Value:
    """Emits the collapse of an image of one row to (batch, channels, columns)."""
    return collapse(v, _PLACES)


def numbers_with_row(how: Sequence[ir.Attribute]) -> tuple[ir.Attribute, ...]:
    """Returns the numbers of the same convolution of images of one row. how: stride, padding, dilation, whether it is transposed,
    padding of the output, groups."""
    numbers = [[n, *ir.ArrayAttr(given)] for n, given in zip((1, 0, 1), how[:3], strict=True)]
    transposed, output, groups = how[3:]
    return (*map(encoded, numbers), transposed, encoded([0, *ir.ArrayAttr(output)]), groups)


def call_with_row(op: ir.Operation) -> ir.Operation:
    """Replaces a 1-D convolution, or its gradients, with row-major results, by the call for images of one row."""
    args, first = list(ir.ArrayAttr(op.attributes["args"])), FIRST_NUMBER[callee_of(op)]
    args[first : first + 6] = numbers_with_row(args[first : first + 6])
    with op.location, ir.InsertionPoint(op):
        operands = [row_added(v) if len(shape_of(v)) == 3 else v for v in op.operands]
        images = [len(shape_of(v)) == 3 for v in op.results]
        types = [with_row(v.type) if image else v.type for v, image in zip(op.results, images, strict=True)]
        types_and_strides = iter(
            (type_, sizes_attribute(row_major(sizes_of(type_)) if image else declared_strides(v)))
            for v, type_, image in zip(op.results, types, images, strict=True)
        )
        results = [None if isinstance(s, ir.TypeAttr) else next(types_and_strides) for s in ir.ArrayAttr(op.attributes["strides"])]
        call = call_like(op, operands, args, results)
        for old, new, image in zip(op.results, call.results, images, strict=True):
            old.replace_all_uses_with(row_dropped(new) if image else new)
    op.erase()
    return call
