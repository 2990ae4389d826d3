"""Implicit GEMM: reads calls of convolutions and emits them as linalg, for Lamina's kernels: pixels of the result by features."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from ...ir.generics import empty, generic, sums_of_products, wide, with_body
from ...ir.reading import shape_of
from ..gemm.products import TF32, Product, in_parts, tf32_or_half
from .layout_calls import CONVOLUTION, CONVOLUTIONS, channels_last
from .padding import padded, past_the_end

_FACTORS = ("f16", "bf16")
_LEAST = 16  # elements of a window at least: what tensor cores multiply at a time
_STRIDES = (1, 2)  # of depthwise convolutions that are direct by default
_TAPS = (4, 64)  # elements of their windows, from and to
_SMALLEST = 8  # channels of them, at least


@dataclass(frozen=True)
class Convolution:
    """A 2-D convolution of f16 or bf16, or of f32 that may be rounded to tf32, with a channels-last result. Those that are direct
    convolutions by default are excluded.

    image   (batch, channels, height, width)
    weight  (features, channels of a group, kernel height, kernel width)
    stride, padding, dilation  of height and width
    relu    whether a ReLU follows
    """

    image: ir.Value
    weight: ir.Value
    bias: ir.Value | None
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    relu: bool
    result: ir.RankedTensorType

    @staticmethod
    def read(op: ir.Operation) -> "Convolution | None":
        """Reads the convolution that a graph.extern calls; None where Lamina's GEMM kernels cannot compute it."""
        if op.name != "graph.extern" or (callee := ir.StringAttr(op.attributes["callee"]).value) not in CONVOLUTIONS:
            return None
        _, _, _, *given = ir.ArrayAttr(op.attributes["args"])
        stride, padding, dilation = (_pair(a) for a in given[:3])
        image, weight = (shape_of(v) for v in list(op.operands)[:2])
        result = ir.RankedTensorType(op.results[0].type)
        transposed = callee == CONVOLUTION and ir.BoolAttr(given[3]).value
        groups = int(ir.IntegerAttr(given[-1]).value)
        if len(image) != 4 or transposed or 0 in (*image, *weight, *result.shape):
            return None
        if direct_by_default(image, weight, groups, stride, dilation):
            return None
        types = {str(ir.RankedTensorType(v.type).element_type) for v in (*op.operands, *op.results)}
        declared = tuple(ir.DenseI64ArrayAttr(op.attributes["strides"][0]))
        allowed = {*_FACTORS, "f32"} if TF32 in op.attributes else {*_FACTORS}
        if len(types) != 1 or not types <= allowed or declared != channels_last(tuple(result.shape)):
            return None
        if groups == 1 and weight[1] * weight[2] * weight[3] < _LEAST:
            return None
        bias = op.operands[2] if len(op.operands) > 2 else None
        return Convolution(op.operands[0], op.operands[1], bias, stride, padding, dilation, groups, callee != CONVOLUTION, result)

    @property
    def operands(self) -> list[ir.Value]:
        """Image, weight and, if there is one, bias."""
        return [v for v in (self.image, self.weight, self.bias) if v is not None]

    @property
    def channels(self) -> int:
        """Channels of a group."""
        return shape_of(self.weight)[1]

    @property
    def feeds_blocks(self) -> bool:
        """Whether a group has enough channels and features to fill tensor cores by itself."""
        return self.groups == 1 or min(self.channels, shape_of(self.weight)[0] // self.groups) >= _LEAST

    @property
    def is_product(self) -> bool:
        """Whether this is a 1x1 convolution with stride 1 and no padding: a plain matrix product in channels-last memory."""
        return shape_of(self.weight)[2:] == self.stride == (1, 1) and self.padding == (0, 0)

    @property
    def a(self) -> ir.Value:
        """The left operand: the image."""
        return self.image

    @property
    def b(self) -> ir.Value:
        """The right operand: the weight."""
        return self.weight

    @property
    def after(self) -> list[ir.Value]:
        """The operands of `finish`: the bias, if any."""
        return [] if self.bias is None else [self.bias]

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """The sizes (batch, m, n, k), where k is what split-K may cut: the channels; 1 for grouped convolutions."""
        n, o, i, j = self.result.shape
        return self.groups, n * i * j, o // self.groups, self.channels if self.groups == 1 else 1

    def emit(self, operands: Sequence[ir.Value]) -> ir.Value:
        """Emits the convolution in linalg on other values for `operands`: summed in f32, then rounded."""
        image, weight, *bias = operands
        sums = self.sums(image, weight) if self.groups == 1 else self._sums_of_groups(image, weight)
        return self.finish(sums, bias)

    def sums_type(self, parts: int = 1) -> ir.RankedTensorType:
        """Returns the type of the sums. With several parts, the features are last, as the kernel has them."""
        n, o, i, j = self.result.shape
        return ir.RankedTensorType.get(self.result.shape if parts == 1 else [parts, n, i, j, o], ir.F32Type.get())

    def sums(self, image: ir.Value, weight: ir.Value, parts: int = 1) -> ir.Value:
        """Emits the sums alone, for one group, over kernel height, kernel width and channels: the memory order of a channels-last
        weight. parts: split-K parts of the channels; with more than one, the sums of each."""
        image = self._padded(image)
        if parts == 1:
            n, o, i, j, ki, kj, c = (ir.AffineDimExpr.get(d) for d in range(7))
            image_at, weight_at, out = [n, c], [o, c], [n, o, i, j]
        else:
            p, n, i, j, o, ki, kj, c = (ir.AffineDimExpr.get(d) for d in range(8))
            image, weight = in_parts(image, 1, parts), in_parts(weight, 1, parts)
            image_at, weight_at, out = [n, p, c], [o, p, c], [p, n, i, j, o]
        maps = [[*image_at, *self._window(i, j, ki, kj)], [*weight_at, ki, kj], out]
        return sums_of_products(self.sums_type(parts), image, weight, maps, 3, tf32_or_half)

    def _sums_of_groups(self, image: ir.Value, weight: ir.Value) -> ir.Value:
        n, o, *sizes = self.result.shape
        type_ = ir.RankedTensorType.get([n, self.groups, o // self.groups, *sizes], ir.F32Type.get())
        n, g, o, i, j, ki, kj, c = (ir.AffineDimExpr.get(d) for d in range(8))
        maps = [[n, g, c, *self._window(i, j, ki, kj)], [g, o, c, ki, kj], [n, g, o, i, j]]
        image, weight = in_parts(self._padded(image), 1, self.groups), in_parts(weight, 0, self.groups)
        return tensor.collapse_shape(
            self.sums_type(), sums_of_products(type_, image, weight, maps, 3, tf32_or_half), [[0], [1, 2], [3], [4]]
        )

    def _padded(self, image: ir.Value) -> ir.Value:
        """Emits the image with zeros around it, up to where the last window ends."""
        sizes = zip(self.result.shape[2:], self.stride, shape_of(self.weight)[2:], self.dilation, strict=True)
        reach = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in sizes]
        return padded(image, self.padding, past_the_end(shape_of(image)[2:], reach, self.padding))

    def _window(self, i: ir.AffineExpr, j: ir.AffineExpr, ki: ir.AffineExpr, kj: ir.AffineExpr) -> list[ir.AffineExpr]:
        """Returns row and column of the padded image for a pixel of the result and a position in the window."""
        (si, sj), (di, dj) = self.stride, self.dilation
        return [i * si + ki * di, j * sj + kj * dj]

    def finish(self, sums: ir.Value, bias: Sequence[ir.Value], parts: int = 1) -> ir.Value:
        """Emits the convolution from the result of `sums`. Parts are added in order."""
        n, o, i, j = out = [ir.AffineDimExpr.get(d) for d in range(4)]
        of_parts = [out] if parts == 1 else [[ir.AffineConstantExpr.get(p), n, i, j, o] for p in range(parts)]
        maps = [*of_parts, *([o] for _ in bias), out]
        rounded = generic(self.result, [*([sums] * parts), *bias, empty(self.result)], maps, 4, [False] * 4)

        def whole(*elements: ir.Value) -> ir.Value:
            value = reduce(arith.addf, elements[:parts])
            value = arith.addf(value, wide(elements[parts])) if bias else value
            value = arith.maximumf(value, arith.constant(value.type, 0.0)) if self.relu else value
            narrow = self.result.element_type
            return value if value.type == narrow else arith.truncf(narrow, value)

        return with_body(rounded, whole)


def direct_by_default(
    image: Sequence[int], weight: Sequence[int], groups: int, stride: tuple[int, int], dilation: tuple[int, int]
) -> bool:
    """Returns whether a convolution is direct by default: depthwise, and of the kind that was measured."""
    kernel = weight[2:]
    plain = dilation == (1, 1) and all(s in _STRIDES for s in stride) and min(kernel) > 1
    return plain and _SMALLEST <= groups == image[1] == weight[0] and _TAPS[0] <= kernel[0] * kernel[1] <= _TAPS[1]


def computed(op: ir.Operation) -> Product | Convolution | None:
    """Reads the product or convolution that a graph.extern calls, where a GEMM kernel may compute it."""
    return Product.read(op) or Convolution.read(op)


def _pair(numbers: ir.Attribute) -> tuple[int, int]:
    """Returns the numbers for height and width; torch takes one number for both."""
    given = [ir.IntegerAttr(a).value for a in ir.ArrayAttr(numbers)]
    return (given[0], given[-1])
