"""Converts images (batch, channels, height, width) to and from rows of channels.

Rows of channels are (batch, height, width, channels) or a collapse of that, such as the (batch, height * width, channels) of a
transformer. For channels-last images, both are views of the same memory.
"""

import math
from collections.abc import Sequence
from typing import TypeVar

from torch_mlir import ir

from lamina.core.sizes import SizeLike

from ...ir.affine import Affine, offset, row_major
from ...ir.generics import transposed
from ...ir.reading import shape_of
from ...ir.reshapes import collapse, expand
from ...ir.sizes import sizes_of, tensor_type

T = TypeVar("T")
_TO_ROWS, _TO_IMAGE = [0, 2, 3, 1], [0, 3, 1, 2]


def is_rows(image: Sequence[SizeLike], shape: Sequence[SizeLike]) -> bool:
    """Returns whether `shape` is a collapse of (batch, height, width, channels) of an image with shape `image`."""
    return _collapsed(_permuted(image, _TO_ROWS), shape) is not None


def rows_index(image: Sequence[SizeLike], shape: Sequence[SizeLike], index: Sequence[Affine]) -> tuple[Affine, ...]:
    """Returns the index, in rows of shape `shape`, of the image's element at `index`."""
    sizes, places = _permuted(image, _TO_ROWS), _permuted(index, _TO_ROWS)
    groups = _collapsed(sizes, shape)
    assert groups is not None, "is_rows holds"
    return tuple(offset(tuple(places[d] for d in g), row_major(tuple(sizes[d] for d in g))) for g in groups)


def image_type(image: Sequence[SizeLike], rows: ir.Type) -> ir.RankedTensorType:
    """Returns the type of an image of shape `image` with the element type of `rows`."""
    return tensor_type(image, ir.RankedTensorType(rows).element_type)


def as_image(v: ir.Value, image: Sequence[SizeLike]) -> ir.Value:
    """Emits the view of `v`, which holds rows of channels, as an image of shape `image`."""
    shape = _permuted(image, _TO_ROWS)
    groups = _collapsed(shape, shape_of(v))
    assert groups is not None, "is_rows holds"
    whole = v if len(shape_of(v)) == len(shape) else expand(v, shape, groups)
    return transposed(whole, _TO_IMAGE)


def as_rows(v: ir.Value, rows: ir.Type) -> ir.Value:
    """Emits the view of an image as rows of channels of type `rows`."""
    whole = transposed(v, _TO_ROWS)
    groups = _collapsed(shape_of(whole), sizes_of(rows))
    assert groups is not None, "is_rows holds"
    return whole if whole.type == rows else collapse(whole, groups)


def _permuted(shape: Sequence[T], order: Sequence[int]) -> list[T]:
    return [shape[d] for d in order]


def _collapsed(shape: Sequence[SizeLike], to: Sequence[SizeLike]) -> list[list[int]] | None:
    """Returns the reassociation that collapses `shape` to `to`, a group of adjacent dimensions for each; None if there is none."""
    groups: list[list[int]] = []
    left = list(range(len(shape)))
    for n in to:
        group = [left.pop(0)] if left else []
        while left and math.prod(shape[d] for d in group) != n:
            group.append(left.pop(0))
        if not group or math.prod(shape[d] for d in group) != n:
            return None
        groups.append(group)
    return None if left else groups
