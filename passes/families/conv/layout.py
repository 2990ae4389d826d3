"""lamina-layout: chooses the channels-last layout for convolutions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import tensor

from lamina.core.layout import Layout

from ...infra.base import Pass
from ...ir.views import shape_of, view_layout
from ...trace.materialize import given_strides
from ..gemm.products import TF32
from .depthwise_calls import is_depthwise

CONVOLUTION = "aten.convolution.default"
BACKWARD = "aten.convolution_backward.default"
_VIEWS = ("linalg.transpose", "tensor.expand_shape", "tensor.collapse_shape")
_TRANSPOSED, _GROUPS = 6, 8  # positions of `transposed` and `groups` among its arguments
_BACKWARD_TRANSPOSED, _BACKWARD_GROUPS = 7, 9  # the same in the backward op
_VECTOR = 16  # f32 channels of a vector of oneDNN
CONVOLUTIONS = (CONVOLUTION, "aten.cudnn_convolution_relu.default")  # the second is never transposed, and has one group


@dataclass(frozen=True)
class ChooseLayout(Pass):
    """Let 2-D convolutions give their result with the channels last.

    Libraries vectorize over channels; with channels last nothing is reordered between a convolution and the pointwise kernel after
    it. The pass sets the result's strides; lamina-plan lets kernels that feed such a convolution write the same layout.

        strides = [array<i64: 200704, 3136, 56, 1>]  ->  strides = [array<i64: 200704, 1, 3584, 64>]

    cuDNN computes grouped convolutions that are not depthwise more slowly with channels last, so without `grouped` their graphs
    stay as they are. Those that round to tf32 do not count: their kernels take channels last, and others are transposed before.

    types    element types that this is done for; "tf32" is f32 that the library may round to tf32
    slow     only convolutions that are slow in oneDNN with channels first, and others of the graph with weights smaller than images
    packed   only where the weight is an argument of @main, which the CPU's runtime packs once
    grouped  also where the graph has grouped convolutions that are not depthwise
    transposed  also transposed convolutions
    gradients   also the gradients of convolutions
    copied   copy images and weights that no kernel produces: a library's result has their layout, and it would copy weights
    """

    name: ClassVar[str] = "lamina-layout"
    types: tuple[str, ...] = ("f32",)
    slow: bool = False
    packed: bool = True
    grouped: bool = True
    transposed: bool = False
    gradients: bool = False
    copied: bool = False

    def run(self, module: ir.Module) -> None:
        """Sets the strides of the convolutions that suit, and copies operands where `copied` asks for it."""
        for f in module.body.operations:
            if f.operation.name != "func.func" or not f.operation.regions[0].blocks:
                continue
            found = [o.operation for o in f.operation.regions[0].blocks[0].operations if self._is_plain(o.operation)]
            if not self.grouped and any(_is_grouped(op) and TF32 not in op.attributes for op in found):
                continue
            if self.slow:
                slow = {op for op in found if _is_slow(op)}
                found = [op for op in found if op in slow or (slow and _has_small_weights(op))]
            with module.context:
                for op in found:
                    if self._suits(op):
                        self._change(op)

    def _is_plain(self, op: ir.Operation) -> bool:
        """Whether this is a 2-D convolution of images that are not empty, or its gradients."""
        if op.name != "graph.extern" or _callee(op) not in (CONVOLUTIONS if not self.gradients else (*CONVOLUTIONS, BACKWARD)):
            return False
        types = [ir.RankedTensorType(v.type) for v in (*_images(op), op.results[0])]
        return all(0 not in t.shape for t in types) and all(t.rank == 4 for t in types[:-1])

    def _suits(self, op: ir.Operation) -> bool:
        name = str(ir.RankedTensorType(op.operands[0].type).element_type)
        known = name in self.types or (name == "f32" and TF32 in op.attributes and TF32 in self.types)
        return (
            known
            and (self.transposed or not _is_transposed(op))
            and (isinstance(op.operands[1], ir.BlockArgument) or not self.packed)
        )

    def _change(self, op: ir.Operation) -> None:
        results = iter(op.results)  # gradients that are not requested are not among the results
        given = [
            strides if isinstance(strides, ir.TypeAttr) else _changed(next(results), strides)
            for strides in op.attributes["strides"]
        ]
        op.attributes["strides"] = ir.ArrayAttr.get(given)
        if self.copied:
            for i, image in enumerate(_images(op)):
                if not _is_served(image):
                    op.operands[i] = _copy(op, image)
        if _callee(op) == BACKWARD:  # cuDNN copies operands whose layout differs from the image's
            op.attributes["needs"] = ir.ArrayAttr.get([_channels_last(v) for v in op.operands])


def _callee(op: ir.Operation) -> str:
    return str(ir.StringAttr(op.attributes["callee"]).value)


def _images(op: ir.Operation) -> list[ir.Value]:
    """Returns the operands with channels: image and weight; for gradients, that of the result, image and weight."""
    return list(op.operands)[: 3 if _callee(op) == BACKWARD else 2]


def _changed(result: ir.Value, strides: ir.Attribute) -> ir.Attribute:
    return _channels_last(result) if ir.RankedTensorType(result.type).rank == 4 else strides


def _is_transposed(op: ir.Operation) -> bool:
    place = {CONVOLUTION: _TRANSPOSED, BACKWARD: _BACKWARD_TRANSPOSED}.get(_callee(op))
    return place is not None and bool(ir.BoolAttr(ir.ArrayAttr(op.attributes["args"])[place]).value)


def _is_slow(op: ir.Operation) -> bool:
    """Whether oneDNN has no fast kernel for a convolution with channels first. It has one for 1x1 windows, and where the channels
    of a group fill vectors; elsewhere it takes 1.2 to 13 times as long as with channels last. Depthwise ones are Lamina's kernels
    (passes/families/conv/depthwise_cpu.py)."""
    image, weight, result = (ir.RankedTensorType(v.type).shape for v in (op.operands[0], op.operands[1], op.results[0]))
    groups = _groups(op)
    ragged = image[1] // groups % _VECTOR or result[1] // groups % _VECTOR
    return image[1] > 1 and not is_depthwise(op) and (_is_transposed(op) or bool(ragged and weight[2] * weight[3] > 1))


def _has_small_weights(op: ir.Operation) -> bool:
    image, weight, result = (math.prod(ir.RankedTensorType(v.type).shape) for v in (op.operands[0], op.operands[1], op.results[0]))
    return weight < (image + result) // 2


def _is_grouped(op: ir.Operation) -> bool:
    """Whether this has groups of several channels."""
    image = _images(op)[-2]
    return _groups(op) not in (1, ir.RankedTensorType(image.type).shape[1])


def _groups(op: ir.Operation) -> int:
    place = {CONVOLUTION: _GROUPS, BACKWARD: _BACKWARD_GROUPS}.get(_callee(op))
    return 1 if place is None else int(ir.IntegerAttr(ir.ArrayAttr(op.attributes["args"])[place]).value)


def _is_served(value: ir.Value) -> bool:
    """Whether a value needs no copy: Lamina's kernel produces it, in any layout, it is the result of a call, or it is an argument
    of @main, or a view of such a result, that is channels last."""
    views: list[ir.Operation] = []
    source = value
    while not isinstance(source, ir.BlockArgument) and source.owner.name in _VIEWS:
        views.append(source.owner)
        source = source.owner.operands[0]
    if isinstance(source, ir.BlockArgument):
        return _lies_well(source, given_strides(source.owner).get(source), views)
    if source.owner.name == "graph.extern":
        strides = ir.ArrayAttr(source.owner.attributes["strides"])[ir.OpResult(source).result_number]
        known = ir.DenseI64ArrayAttr(strides) if isinstance(strides, ir.DenseI64ArrayAttr) else None
        return not views or _lies_well(source, known, views)
    return source.owner.name == "linalg.generic"


def _lies_well(source: ir.Value, strides: Sequence[int] | None, views: Sequence[ir.Operation]) -> bool:
    """Whether a value of these strides (row-major if None) is channels last through `views` (the last one first)."""
    shape = shape_of(source)
    layout: Layout | None = Layout.of(shape, list(strides)) if strides is not None else Layout.row_major(shape)
    for view in reversed(views):
        layout = view_layout(view, layout) if layout is not None else None
    return layout is not None and layout == Layout.of(layout.shape, channels_last(layout.shape))


def _copy(op: ir.Operation, operand: ir.Value) -> ir.Value:
    """Emits a copy of an operand before `op`, as a kernel of its own."""
    type_ = ir.RankedTensorType(operand.type)
    identity = ir.AffineMap.get_identity(type_.rank)
    with op.location, ir.InsertionPoint(op):
        out = tensor.empty(list(type_.shape), type_.element_type)
        generic = ir.Operation.create(
            "linalg.generic", results=[type_], operands=[operand, out], regions=1,
            attributes={
                "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(identity)] * 2),
                "iterator_types": ir.ArrayAttr.get([ir.Attribute.parse("#linalg.iterator_type<parallel>")] * type_.rank),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1]),
            },
        )  # fmt: skip
        block = generic.regions[0].blocks.append(type_.element_type, type_.element_type)
        with ir.InsertionPoint(block):
            ir.Operation.create("linalg.yield", operands=[block.arguments[0]])
    return generic.results[0]


def channels_last(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the strides of an image (batch, channels, height, width) with channels innermost."""
    _, c, h, w = shape
    return (h * w * c, 1, w * c, c)


def _channels_last(value: ir.Value) -> ir.Attribute:
    return ir.DenseI64ArrayAttr.get(list(channels_last(tuple(ir.RankedTensorType(value.type).shape))))
