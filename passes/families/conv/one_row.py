"""Converts images of one row, (batch, channels, 1, columns), to and from (batch, channels, columns)."""

from torch_mlir import ir

from lamina.core.sizes import SizeLike

from ...ir.reshapes import collapse, expand
from ...ir.sizes import sizes_of, tensor_type

_PLACES = [[0], [1], [2, 3]]


def without_row(shape: tuple[SizeLike, ...]) -> tuple[SizeLike, ...] | None:
    """Returns the shape of an image without its only row; None where it has more rows."""
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
