"""Turns depthwise and grouped convolutions into Lamina's direct convolution kernels, with fused epilogues.

A 2-D convolution of f16, bf16 or f32 with a channels-last result becomes a group marked `graph.window`: a sum over the window in
f32, fused with its only reader if that is a pointwise group on the image or on rows of its channels. A second group converts the
weight to f32 and transposes it to channels last, because each thread holds adjacent channels; done here, no element is converted
twice.
lamina-tile turns the group into a direct convolution, in which each thread computes a strip of columns
(passes/space/direct_convolution.py). Grouped convolutions also sum over the channels of a group.

    %0 = "graph.extern"(%x, %w) {callee = "aten.convolution.default", args = [unit, unit, none, [1, 1], [3, 3], ...]}
 -> %1 = "graph.group"(%w) ({ transposed, in f32 })
    %0 = "graph.group"(%x, %1) ({ pad ; sum of products }) {graph.window}

cuDNN's channels-last kernels load a pixel and a weight for each product. Here a thread keeps a row of sums in registers and reads
each pixel of a row of the window once, so that most of its instructions are multiply-adds.
"""

import math

from torch_mlir import ir

from ...ir.generics import empty, generic, in_parts, sums_of_products, to_f32, with_body
from ...ir.reading import Untraceable, shape_of
from ...ir.reshapes import collapse
from ...ir.sizes import tensor_type
from ...space.contraction import Unfit
from ...space.direct_convolution import WINDOW, direct_convolution_of
from ..surroundings import ValueMap, copy_body, group_before, only_reader, replace_by, space_of, strides_of
from .calls import SUMMED_DIRECTLY, Convolution, channels_last
from .image_rows import as_image, as_rows, image_type, is_rows
from .one_row import row_added, row_dropped, with_row, without_row

_MOST_TERMS = 32 * 25  # products that are summed for one element; longer sums belong on tensor cores


class GroupedConvolution(Convolution):
    """A grouped convolution of f16, bf16 or f32 with a channels-last result: a candidate for direct convolution."""

    @property
    def suits(self) -> bool:
        """Whether the direct convolution kernel can compute this call."""
        known = self.is_plain and self.element in SUMMED_DIRECTLY and self.is_channels_last and self.has_known_channels
        return known and self.groups > 1 and math.prod(shape_of(self.weight)[1:]) <= _MOST_TERMS

    def emit(self, image: ir.Value, weight: ir.Value, *bias: ir.Value) -> ir.Value:
        """Emits the convolution of an image with a weight in the layout of `_weight`: summed in f32, then rounded."""
        image = self.padded(image)
        return self.finish(self._sums(image, weight) if self.is_depthwise else self._sums_of_groups(image, weight), bias)

    def _sums(self, image: ir.Value, weight: ir.Value) -> ir.Value:
        """Emits the sums of a depthwise convolution."""
        n, c, i, j, ki, kj = (ir.AffineDimExpr.get(d) for d in range(6))
        maps = [[n, c, *self.window(i, j, ki, kj)], [ki, kj, c], [n, c, i, j]]
        return sums_of_products(self.wide, image, weight, maps, 2)

    def _sums_of_groups(self, image: ir.Value, weight: ir.Value) -> ir.Value:
        """Emits the sums of a grouped convolution: over the window and the channels of a group, for each feature."""
        batch, features, *sizes = shape_of(self.op.results[0])
        n, g, o, i, j, ki, kj, c = (ir.AffineDimExpr.get(d) for d in range(8))
        maps = [[n, g, c, *self.window(i, j, ki, kj)], [ki, kj, c, g, o], [n, g, o, i, j]]
        type_ = tensor_type([batch, self.groups, features // self.groups, *sizes], ir.F32Type.get())
        weight = in_parts(in_parts(weight, 2, shape_of(self.weight)[1]), 3, self.groups)
        sums = sums_of_products(type_, in_parts(image, 1, self.groups), weight, maps, 3)
        return collapse(sums, [[0], [1, 2], [3], [4]])


def fits_direct(op: ir.Operation) -> bool:
    """Returns whether direct convolution can compute a graph.extern, by building the group and erasing it again."""
    convolution = GroupedConvolution.read(op)
    if convolution is None:
        return False
    with op.context:
        weight = _weight(op, convolution.weight)
        new = _group_of(op, None, convolution, weight.results[0])
        fits = _fits(new)
        new.erase()
        weight.erase()
    return fits


def replace_by_direct(op: ir.Operation) -> bool:
    """Replaces a call by a group, fused with its reader if possible. Returns False, with the module unchanged, if direct
    convolution cannot compute the call."""
    convolution = GroupedConvolution.read(op)
    if convolution is None:
        return False
    group = only_reader(op)
    with op.context:
        weight = _weight(op, convolution.weight)
        for after in [group, None] if group is not None else [None]:
            new = _group_of(op, after, convolution, weight.results[0])
            if _fits(new):
                _put(new, op, after)
                return True
            _erase_with_views(new)
        weight.erase()
    return False


def _erase_with_views(group: ir.Operation) -> None:
    """Erases a group, and the views of its operands that were made for it."""
    views = [v.owner for v in group.operands if isinstance(v, ir.OpResult) and v.owner.name == "tensor.expand_shape"]
    group.erase()
    for view in views:
        if not list(view.results[0].uses):
            view.erase()


def _put(new: ir.Operation, op: ir.Operation, group: ir.Operation | None) -> None:
    """Replaces a call, and the group that reads it if `new` includes that, by `new`."""
    results = list(new.results)
    for i, (old, now) in enumerate(zip((group or op).results, new.results, strict=True)):
        if now.type != old.type:
            with new.location, ir.InsertionPoint(group or op):
                results[i] = row_dropped(now) if shape_of(old) == without_row(shape_of(now)) else as_rows(now, old.type)
    replace_by(results, group, [op])


def _weight(op: ir.Operation, weight: ir.Value) -> ir.Operation:
    """Emits a group that transposes a weight: (features, channels, height, width) -> f32 (height, width, channels * features)."""
    features, channels, kh, kw = shape_of(weight)
    i, j, c, o = (ir.AffineDimExpr.get(d) for d in range(4))
    f32 = ir.F32Type.get()
    type_ = ir.RankedTensorType.get([kh, kw, channels, features], f32)
    flat = ir.RankedTensorType.get([kh, kw, channels * features], f32)

    def transposed(values: ValueMap) -> list[ir.Value]:
        """Transposes the weight to (height, width, channels, features) in f32."""
        op = generic(type_, [values[weight], empty(type_)], [[o, c, i, j], [i, j, c, o]], 4, [False] * 4)
        return [collapse(with_body(op, lambda x, _: to_f32(x)), [[0], [1], [2, 3]])]

    return group_before(op, (), {weight: weight}, [flat], transposed, "weight")


def _group_of(op: ir.Operation, group: ir.Operation | None, convolution: GroupedConvolution, weight: ir.Value) -> ir.Operation:
    """Builds the group that would replace a call and its reader, in front of them.

    The group computes images even where the reader does not: results that are rows of channels become images, and where the reader
    drops the height of images of one row, the group keeps it, so that they get the layout of images.
    """
    image = shape_of(op.results[0])
    flat = without_row(image)
    after = [] if group is None else [v for v in group.operands if v != op.results[0]]
    bias = convolution.after
    operands_of_group = list(dict.fromkeys([convolution.image, weight, *bias, *after]))

    def body(values: ValueMap) -> list[ir.Value]:
        """Computes the convolution and the epilogue."""
        inner = {v: row_dropped(x) if v.type != x.type else x for v, x in values.items()}
        image_result = convolution.emit(inner[convolution.image], inner[weight], *(inner[v] for v in bias))
        if group is None:
            return [image_result]
        return [imaged(v) for v in copy_body(group, {**inner, op.results[0]: image_result})]

    def imaged(v: ir.Value) -> ir.Value:
        """Reshapes a result of the reader to an image, unless it is one already."""
        if shape_of(v) == flat:
            return row_added(v)
        return as_image(v, image) if rows(v) else v

    def rows(v: ir.Value) -> bool:
        """Returns whether a value holds the image as rows of channels."""
        return shape_of(v) != image and is_rows(image, shape_of(v))

    def type_of(v: ir.Value) -> ir.Type:
        """Returns the type of the group's result that stands for `v`."""
        if shape_of(v) == flat:
            return with_row(v.type)
        return image_type(image, v.type) if rows(v) else v.type

    with op.location, ir.InsertionPoint(group or op):
        operands = {v: row_added(v) if v in after and shape_of(v) == flat else v for v in operands_of_group}
    types = [type_of(v) for v in (group or op).results]
    new = group_before(group or op, [op, group] if group else [op], operands, types, body, "convolution")
    new.attributes[WINDOW] = ir.UnitAttr.get()
    return new


def _fits(group: ir.Operation) -> bool:
    """Returns whether direct convolution can compute a group, given that all its images are channels last."""
    try:
        space = space_of(group, lambda v: channels_last(shape_of(v)) if len(shape_of(v)) == 4 else strides_of(v))
        arguments = group.regions[0].blocks[0].arguments
        direct_convolution_of(space, dict.fromkeys(arguments, 16), [16] * len(group.results))
    except (Unfit, Untraceable):
        return False
    return True
