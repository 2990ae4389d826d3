"""Builders for reshapes and slices of tensors at the current insertion point; sizes may be symbolic."""

import math
from collections.abc import Sequence
from itertools import accumulate
from operator import mul

from torch_mlir import ir
from torch_mlir.dialects import tensor

from lamina.core.sizes import SizeLike

from .affine import refine
from .reading import shape_of
from .sizes import size_operands, static_sizes, tensor_type


def reshaped(v: ir.Value, shape: Sequence[SizeLike]) -> ir.Value | None:
    """Returns `v` in another shape, row-major: it splits dimensions and merges them or, where no factors serve both shapes, merges
    and splits them. None if the sizes are not shown to hold as many elements."""
    wanted = tuple(shape)
    if shape_of(v) == wanted:
        return v
    before, after = (tuple(n for n in s if n != 1) for s in (shape_of(v), wanted))
    factors = refine([before, after]) if before and after else ()
    if factors is None:
        return expanded(collapsed(v, merged), wanted) if (merged := _common(before, after)) else None
    fine = [n for n in factors if n != 1]
    return expanded(collapsed(expanded(collapsed(v, before), fine), after), wanted)


def _common(one: Sequence[SizeLike], other: Sequence[SizeLike]) -> list[SizeLike] | None:
    """Returns the finest shape that both shapes, which have no ones, are merged to; None if they differ in their elements."""
    merged: list[SizeLike] = []
    ends = {end: start for start, end in enumerate(accumulate(other, mul), 1)}
    start = done = 0
    for i, end in enumerate(accumulate(one, mul), 1):
        if ends.get(end, 0) > done:
            merged.append(math.prod(one[start:i]))
            start, done = i, ends[end]
    return merged if (start, done) == (len(one), len(other)) else None


def collapsed(v: ir.Value, shape: Sequence[SizeLike]) -> ir.Value:
    """Merges adjacent dimensions of `v` to get `shape`, which has no ones."""
    if tuple(shape) == shape_of(v):
        return v
    return collapse(v, _reassociation(shape_of(v), shape))


def collapse(v: ir.Value, groups: Sequence[Sequence[int]]) -> ir.Value:
    """Creates a tensor.collapse_shape. groups: adjacent dimensions of `v` for each of the result's."""
    sizes = shape_of(v)
    type_ = tensor_type([math.prod(sizes[d] for d in g) for g in groups], ir.RankedTensorType(v.type).element_type)
    return tensor.CollapseShapeOp(type_, v, groups).result


def expanded(v: ir.Value, shape: Sequence[SizeLike]) -> ir.Value:
    """Splits dimensions of `v`, which has no ones, to get `shape`, which may contain ones."""
    return v if tuple(shape) == shape_of(v) else expand(v, shape, _reassociation(shape, shape_of(v)))


def expand(v: ir.Value, shape: Sequence[SizeLike], groups: Sequence[Sequence[int]]) -> ir.Value:
    """Creates a tensor.expand_shape. groups: adjacent dimensions of the result for each of `v`'s."""
    type_ = tensor_type(shape, ir.RankedTensorType(v.type).element_type)
    return tensor.ExpandShapeOp(type_, v, groups, size_operands(shape), static_sizes(shape)).result


def sliced(
    v: ir.Value,
    starts: Sequence[SizeLike],
    sizes: Sequence[SizeLike],
    steps: Sequence[int],
    shape: Sequence[SizeLike] | None = None,
) -> ir.Value:
    """Creates a tensor.extract_slice. shape: of the result, where dimensions of size 1 are dropped."""
    type_ = tensor_type(sizes if shape is None else shape, ir.RankedTensorType(v.type).element_type)
    parts = (starts, sizes, steps)
    return tensor.ExtractSliceOp(type_, v, *map(size_operands, parts), *map(static_sizes, parts)).result


def _reassociation(fine: Sequence[SizeLike], coarse: Sequence[SizeLike]) -> list[list[int]]:
    """Groups the dimensions of `fine` by those of `coarse`, which has no ones. Ones join the group before them."""
    groups: list[list[int]] = []
    next_dim = 0
    for n in coarse:
        group: list[int] = []
        while math.prod(fine[d] for d in group) != n:
            group.append(next_dim)
            next_dim += 1
        groups.append(group)
    if groups:
        groups[-1] += range(next_dim, len(fine))
    return groups
