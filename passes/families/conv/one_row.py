"""Converts images of one row, (batch, channels, 1, columns), to and from (batch, channels, columns)."""

from torch_mlir import ir
from torch_mlir.dialects import tensor

from ...ir.reading import shape_of

_PLACES = [[0], [1], [2, 3]]


def without_row(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Returns the shape of an image without its only row; None where it has more rows."""
    return (*shape[:2], shape[3]) if shape[2] == 1 else None


def with_row(type_: ir.Type) -> ir.RankedTensorType:
    """Returns the type (batch, channels, 1, columns) for (batch, channels, columns)."""
    flat = ir.RankedTensorType(type_)
    batch, channels, columns = flat.shape
    return ir.RankedTensorType.get([batch, channels, 1, columns], flat.element_type)


def row_added(v: ir.Value) -> ir.Value:
    """Emits the expansion to an image of one row."""
    type_ = with_row(v.type)
    return tensor.expand_shape(type_, v, _PLACES, [], list(type_.shape))


def row_dropped(v: ir.Value) -> ir.Value:
    """Emits the collapse of an image of one row to (batch, channels, columns)."""
    batch, channels, _, columns = shape_of(v)
    flat = ir.RankedTensorType.get([batch, channels, columns], ir.RankedTensorType(v.type).element_type)
    return tensor.collapse_shape(flat, v, _PLACES)
