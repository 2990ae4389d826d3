"""Reads calls of 2-D convolutions and of their gradients, for the choice of layouts and for all convolution kernels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar, Self

from torch_mlir import ir
from torch_mlir.dialects import arith

from lamina.core.dtypes import HALF
from lamina.core.layout import Layout
from lamina.core.sizes import is_symbolic, typical
from lamina.dialects.graph import TF32
from lamina.kernels.library import CONVOLUTION, CONVOLUTION_BACKWARD
from lamina.schedules.convolution_layout import ConvolutionShape
from lamina.schedules.direct_convolution import fits_registers, strip_columns

from ...ir.extern_calls import declared_strides
from ...ir.generics import elementwise, filled, generic, padded, spread, to_f32, with_body
from ...ir.reading import callee_of, element_type, shape_of
from ...ir.sizes import sizes_of, tensor_type

_STRIDES = (1, 2)  # of depthwise convolutions that are direct by default
_LEAST_TAPS = 4  # elements of their windows
SUMMED_DIRECTLY = (*HALF, "f32")  # elements of direct convolutions on GPUs
MOST_TAPS = 64  # elements of the window of a depthwise convolution that is a kernel of Lamina's
_SMALLEST = 8  # channels of them, at least

FIRST_NUMBER = {CONVOLUTION: 3, CONVOLUTION_BACKWARD: 4}
"""Position among a call's arguments of the first of six: stride, padding, dilation, transposed, padding of the output, groups."""

Pair = tuple[int, int]
"""Numbers for height and width."""


@dataclass(frozen=True, eq=False)
class Convolution:
    """A graph.extern that calls a 2-D convolution of images that are not empty, or its gradients.

    rank    of images and weight; a subclass for 1-D convolutions says 3: the numbers for height are those for width then
    images  the operands with channels: image (batch, channels, height, width) and weight (features, channels of a group, kernel
            height, kernel width); for gradients, that of the result before them
    bias    is None for gradients, too
    computes  letters of `schedules.convolution_layout.CALLS`
    """

    rank: ClassVar[int] = 4
    op: ir.Operation
    images: tuple[ir.Value, ...]
    bias: ir.Value | None
    stride: Pair
    padding: Pair
    dilation: Pair
    transposed: bool
    groups: int
    computes: str

    @classmethod
    def read(cls, op: ir.Operation) -> Self | None:
        """Reads the call; None for other ops, and for calls that do not suit the class."""
        callee = callee_of(op) if op.name == "graph.extern" else ""
        if callee not in FIRST_NUMBER:
            return None
        gradient = callee == CONVOLUTION_BACKWARD
        images = tuple(op.operands)[: 3 if gradient else 2]
        shapes = [shape_of(v) for v in (*images, op.results[0])]
        if any(0 in s for s in shapes) or any(len(s) != cls.rank for s in shapes[:-1]):
            return None
        numbers = list(ir.ArrayAttr(op.attributes["args"]))[FIRST_NUMBER[callee] :]
        if not has_fixed_window(numbers):
            return None
        stride, padding, dilation = (_pair(a) for a in numbers[:3])
        transposed, groups = ir.BoolAttr(numbers[3]).value, ir.IntegerAttr(numbers[5]).value
        bias = op.operands[2] if not gradient and len(op.operands) > 2 else None
        wanted = [ir.BoolAttr(a).value for a in ir.ArrayAttr(numbers[6])] if gradient else []
        computes = "d" * wanted[0] + "w" * wanted[1] if gradient else "f"
        found = cls(op, images, bias, stride, padding, dilation, transposed, groups, computes)
        return found if found.suits else None

    @property
    def suits(self) -> bool:
        """Whether the kernels that the class stands for compute this call."""
        return True

    @property
    def image(self) -> ir.Value:
        """The image."""
        return self.images[-2]

    @property
    def weight(self) -> ir.Value:
        """The weight."""
        return self.images[-1]

    @property
    def result(self) -> ir.RankedTensorType:
        """The type of the first result."""
        return ir.RankedTensorType(self.op.results[0].type)

    @property
    def wide(self) -> ir.RankedTensorType:
        """The type of the first result before rounding: f32."""
        return tensor_type(shape_of(self.op.results[0]), ir.F32Type.get())

    @property
    def operands(self) -> list[ir.Value]:
        """Image, weight and, if there is one, bias."""
        return [self.image, self.weight, *self.after]

    @property
    def after(self) -> list[ir.Value]:
        """The operands of `finish`: the bias, if any."""
        return [] if self.bias is None else [self.bias]

    @property
    def is_gradient(self) -> bool:
        """Whether this computes gradients."""
        return self.computes != "f"

    @property
    def is_plain(self) -> bool:
        """Whether this is a convolution that is not transposed and has one element type."""
        return not self.is_gradient and not self.transposed and len(self.element_types) == 1

    @property
    def has_known_channels(self) -> bool:
        """Whether no call decides the sizes of the weight, nor the image's channels."""
        return not is_symbolic((*shape_of(self.weight), shape_of(self.image)[1]))

    @property
    def is_depthwise(self) -> bool:
        """Whether there is one filter per channel."""
        return self.groups == shape_of(self.image)[1] == shape_of(self.weight)[0]

    @property
    def is_direct_by_default(self) -> bool:
        """Whether direct convolution is the default on a GPU where nothing was tuned: depthwise, of the kind that was measured."""
        kernel = shape_of(self.weight)[2:]
        if not self.has_known_channels:
            return False
        plain = all(s in _STRIDES for s in self.stride) and kernel[1] > 1
        taps = _LEAST_TAPS <= kernel[0] * kernel[1] <= MOST_TAPS
        return plain and taps and self.is_depthwise and self.groups >= _SMALLEST and self._fits_strips

    @property
    def _fits_strips(self) -> bool:
        """Whether a thread of a direct convolution can hold the pixels of its strip: windows may be spread too far."""
        length = strip_columns(typical(shape_of(self.op.results[0])[-1]))
        return length is not None and fits_registers(length, shape_of(self.weight)[-1], self.stride[1], self.dilation[1])

    @property
    def suits_planes(self) -> bool:
        """Whether lamina-depthwise computes this on a CPU if its result is row-major: f32, a filter per channel, a small window."""
        return self.is_plain and self.element == "f32" and self.has_depthwise_window

    @property
    def has_depthwise_window(self) -> bool:
        """Whether there is one filter per channel, with a window of a known size that is not too large for registers."""
        return self.has_known_channels and self.is_depthwise and math.prod(shape_of(self.weight)[1:]) <= MOST_TAPS

    @property
    def element_types(self) -> set[str]:
        """The element types of operands and results."""
        return {element_type(v) for v in (*self.op.operands, *self.op.results)}

    @property
    def element(self) -> str:
        """The element type of the operands."""
        return element_type(self.op.operands[0])

    @property
    def uses_tensor_cores(self) -> bool:
        """Whether the library may use tensor cores: half types, and f32 that it may round to tf32."""
        return self.element in HALF or (self.element == "f32" and TF32 in self.op.attributes)

    @property
    def is_channels_first(self) -> bool:
        """Whether all results with channels are row-major."""
        results = [v for v in self.op.results if len(shape_of(v)) == self.rank]
        return all(Layout.of(shape_of(v), declared_strides(v)).is_row_major for v in results)

    @property
    def is_channels_last(self) -> bool:
        """Whether the strides of the result are declared to be those of channels last."""
        return declared_strides(self.op.results[0]) == channels_last(shape_of(self.op.results[0]))

    @property
    def shape(self) -> ConvolutionShape:
        """The convolution at typical sizes, for the model of layouts; for a gradient, that of which it is the gradient."""
        image, weight = (tuple(map(typical, shape_of(v))) for v in (self.image, self.weight))
        features = weight[1] * self.groups if self.transposed else weight[0]
        return ConvolutionShape(
            self.element, image[0], image[1], features, (image[2] * image[3]) ** 0.5, (weight[2] * weight[3]) ** 0.5, self.groups,
            self.stride[1], self.dilation[1], self.transposed,
        )  # fmt: skip

    def padded(self, image: ir.Value) -> ir.Value:
        """Emits the image with zeros around it, up to where the last window ends, or, if each call decides that, to the end of the
        padding."""
        sizes = zip(shape_of(self.op.results[0])[2:], self.stride, shape_of(self.weight)[2:], self.dilation, strict=True)
        reach = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in sizes]
        past = [r - n - b for r, n, b in zip(reach, shape_of(image)[2:], self.padding, strict=True)]
        after = [b if is_symbolic(n) else max(n, 0) for n, b in zip(past, self.padding, strict=True)]
        return padded(image, [0, 0, *self.padding], [0, 0, *after])

    def window(self, i: ir.AffineExpr, j: ir.AffineExpr, ki: ir.AffineExpr, kj: ir.AffineExpr) -> list[ir.AffineExpr]:
        """Returns row and column of the padded image for a pixel of the result and a position in the window."""
        (si, sj), (di, dj) = self.stride, self.dilation
        return [i * si + ki * di, j * sj + kj * dj]

    def finish(self, sums: ir.Value, bias: Sequence[ir.Value], parts: int = 1) -> ir.Value:
        """Emits the convolution from its sums in f32. With several parts, the first dimension of the sums, features are last; parts
        are added in order."""
        n, o, i, j = out = [ir.AffineDimExpr.get(d) for d in range(4)]
        of_parts = [out] if parts == 1 else [[ir.AffineConstantExpr.get(p), n, i, j, o] for p in range(parts)]
        maps = [*of_parts, *([o] for _ in bias)]

        def whole(*elements: ir.Value) -> ir.Value:
            """Adds up the parts and the bias, and rounds the sum."""
            value = reduce(arith.addf, elements[:parts])
            value = arith.addf(value, to_f32(elements[parts])) if bias else value
            narrow = self.result.element_type
            return value if value.type == narrow else arith.truncf(narrow, value)

        return elementwise(self.result, [*([sums] * parts), *bias], maps, whole)


def channels_last(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the strides of an image (batch, channels, height, width) with channels innermost."""
    _, c, h, w = shape
    return (h * w * c, 1, w * c, c)


def has_fixed_window(numbers: Sequence[ir.Attribute]) -> bool:
    """Returns whether a call's stride, padding and dilation, its first three numbers, and its number of groups are ints: sizes are
    the library's alone."""
    window = (n for given in numbers[:3] for n in ir.ArrayAttr(given))
    return all(isinstance(n, ir.IntegerAttr) for n in (*window, numbers[5]))


def _pair(numbers: ir.Attribute) -> Pair:
    """Returns the numbers for height and width; torch takes one number for both."""
    given = [ir.IntegerAttr(a).value for a in ir.ArrayAttr(numbers)]
    return (given[0], given[-1])


def sum_of_channels(grad: ir.Value, type_: ir.Type) -> ir.Value:
    """Emits the sum of each channel, in f32 at least."""
    rank, tensor = len(shape_of(grad)), ir.RankedTensorType(type_)
    half = element_type(grad) in HALF
    dims = [ir.AffineDimExpr.get(d) for d in range(rank)]
    single = tensor_type(sizes_of(tensor), ir.F32Type.get()) if half else tensor
    op = generic(single, [grad, filled(single, 0.0)], [dims, dims[1:2]], rank, [d != 1 for d in range(rank)])
    total = with_body(op, lambda x, s: arith.addf(s, to_f32(x) if half else x))
    return spread(total, tensor, make=lambda x: arith.truncf(tensor.element_type, x)) if half else total
