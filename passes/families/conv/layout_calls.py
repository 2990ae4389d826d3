"""Reads the calls of 2-D convolutions and of their gradients, as lamina-layout needs to know them."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from lamina.core.layout import Layout
from lamina.schedules.convolution_layout import ConvolutionShape

from ...ir.reading import element_type, shape_of
from ..gemm.products import TF32

CONVOLUTION = "aten.convolution.default"
BACKWARD = "aten.convolution_backward.default"
CONVOLUTIONS = (CONVOLUTION, "aten.cudnn_convolution_relu.default")  # the second is never transposed
_FIRST_NUMBER = {CONVOLUTION: 3, BACKWARD: 4}  # the position of the stride among the arguments
_MASK = 10  # that of the gradients that are requested


@dataclass(frozen=True)
class LayoutCall:
    """A graph.extern that calls a 2-D convolution of images that are not empty, or its gradients."""

    op: ir.Operation

    @staticmethod
    def read(op: ir.Operation) -> "LayoutCall | None":
        """Reads the call; None for other ops."""
        if op.name != "graph.extern" or _callee(op) not in (*CONVOLUTIONS, BACKWARD):
            return None
        call = LayoutCall(op)
        shapes = [shape_of(v) for v in (*call.images, op.results[0])]
        return call if all(0 not in s for s in shapes) and all(len(s) == 4 for s in shapes[:-1]) else None

    @property
    def is_gradient(self) -> bool:
        """Tells whether this computes gradients."""
        return _callee(self.op) == BACKWARD

    @property
    def images(self) -> list[ir.Value]:
        """Returns the operands with channels: image and weight; for gradients, that of the result, image and weight."""
        return list(self.op.operands)[: 3 if self.is_gradient else 2]

    @property
    def element(self) -> str:
        """The element type of the operands."""
        return element_type(self.op.operands[0])

    @property
    def uses_tensor_cores(self) -> bool:
        """Tells whether the library may use tensor cores: half types, and f32 that it may round to tf32."""
        return self.element in ("f16", "bf16") or (self.element == "f32" and TF32 in self.op.attributes)

    @property
    def is_transposed(self) -> bool:
        """Tells whether this is a transposed convolution, or its gradients."""
        return bool(ir.BoolAttr(self._numbers[3]).value) if _callee(self.op) in _FIRST_NUMBER else False

    @property
    def groups(self) -> int:
        """The number of groups."""
        return int(ir.IntegerAttr(self._numbers[5 if _callee(self.op) in _FIRST_NUMBER else 3]).value)

    @property
    def is_channels_first(self) -> bool:
        """Tells whether all results with channels are row-major."""
        given = [ir.DenseI64ArrayAttr(s) for s in self.op.attributes["strides"] if not isinstance(s, ir.TypeAttr)]
        pairs = [(shape_of(v), tuple(s)) for v, s in zip(self.op.results, given, strict=True) if len(shape_of(v)) == 4]
        return all(Layout.of(shape, strides).is_row_major for shape, strides in pairs)

    @property
    def shape(self) -> ConvolutionShape:
        """Returns the convolution, for a gradient that of which it is the gradient."""
        image, weight = (shape_of(v) for v in self.images[-2:])
        stride, _, dilation = (ir.IntegerAttr(list(ir.ArrayAttr(a))[-1]).value for a in self._numbers[:3])
        features = weight[1] * self.groups if self.is_transposed else weight[0]
        return ConvolutionShape(
            self.element, image[0], image[1], features, image[2] * image[3], weight[2] * weight[3], self.groups, stride, dilation,
            self.is_transposed,
        )  # fmt: skip

    @property
    def computes(self) -> str:
        """Names what is computed by letters of `schedules.convolution_layout.CALLS`."""
        if not self.is_gradient:
            return "f"
        image, weight, _ = (ir.BoolAttr(a).value for a in ir.ArrayAttr(ir.ArrayAttr(self.op.attributes["args"])[_MASK]))
        return "d" * image + "w" * weight

    @property
    def _numbers(self) -> list[ir.Attribute]:
        """The arguments from the stride on."""
        return list(ir.ArrayAttr(self.op.attributes["args"]))[_FIRST_NUMBER.get(_callee(self.op), 3) :]


def _callee(op: ir.Operation) -> str:
    return str(ir.StringAttr(op.attributes["callee"]).value)


def channels_last(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the strides of an image (batch, channels, height, width) with channels innermost."""
    _, c, h, w = shape
    return (h * w * c, 1, w * c, c)
