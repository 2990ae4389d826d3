"""Implicit GEMM: emits convolutions as matrix products in linalg, with the result's pixels as rows and features as columns."""

from collections.abc import Sequence

from torch_mlir import ir

from lamina.core.sizes import SizeLike

from ...ir.generics import in_parts, sums_of_products, tf32_or_half
from ...ir.reading import shape_of
from ...ir.reshapes import collapse
from ...ir.sizes import tensor_type
from .calls import Convolution

_LEAST = 16  # elements of a window at least: what tensor cores multiply at a time


class ImplicitGemm(Convolution):
    """A convolution of f16 or bf16, or of f32 that may be rounded to tf32, with a channels-last result. Those that are direct
    convolutions by default are excluded."""

    @property
    def suits(self) -> bool:
        """Whether GEMM kernels can compute this."""
        known = self.is_plain and not self.is_direct_by_default and self.uses_tensor_cores and self.is_channels_last
        if not (known and self.has_known_channels):
            return False
        _, channels, *kernel = shape_of(self.weight)
        return self.groups > 1 or channels * kernel[0] * kernel[1] >= _LEAST

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
    def sizes(self) -> tuple[SizeLike, SizeLike, SizeLike, SizeLike]:
        """The sizes (batch, m, n, k), where k is what split-K may cut: the channels; 1 for grouped convolutions."""
        n, o, i, j = shape_of(self.op.results[0])
        return self.groups, n * i * j, o // self.groups, self.channels if self.groups == 1 else 1

    def emit(self, operands: Sequence[ir.Value]) -> ir.Value:
        """Emits the convolution in linalg on other values for `operands`: summed in f32, then rounded."""
        image, weight, *bias = operands
        sums = self.sums(image, weight) if self.groups == 1 else self._sums_of_groups(image, weight)
        return self.finish(sums, bias)

    def sums_type(self, parts: int) -> ir.RankedTensorType:
        """Returns the type of the sums. With several parts, the features are last, as the kernel has them."""
        n, o, i, j = shape_of(self.op.results[0])
        return self.wide if parts == 1 else tensor_type([parts, n, i, j, o], ir.F32Type.get())

    def sums(self, image: ir.Value, weight: ir.Value, parts: int = 1) -> ir.Value:
        """Emits the sums alone, for one group, over kernel height, kernel width and channels: the memory order of a channels-last
        weight. parts: split-K parts of the channels; with more than one, the sums of each."""
        image = self.padded(image)
        if parts == 1:
            n, o, i, j, ki, kj, c = (ir.AffineDimExpr.get(d) for d in range(7))
            image_at, weight_at, out = [n, c], [o, c], [n, o, i, j]
        else:
            p, n, i, j, o, ki, kj, c = (ir.AffineDimExpr.get(d) for d in range(8))
            image, weight = in_parts(image, 1, parts), in_parts(weight, 1, parts)
            image_at, weight_at, out = [n, p, c], [o, p, c], [p, n, i, j, o]
        maps = [[*image_at, *self.window(i, j, ki, kj)], [*weight_at, ki, kj], out]
        return sums_of_products(self.sums_type(parts), image, weight, maps, 3, tf32_or_half)

    def _sums_of_groups(self, image: ir.Value, weight: ir.Value) -> ir.Value:
        n, o, *sizes = shape_of(self.op.results[0])
        type_ = tensor_type([n, self.groups, o // self.groups, *sizes], ir.F32Type.get())
        n, g, o, i, j, ki, kj, c = (ir.AffineDimExpr.get(d) for d in range(8))
        maps = [[n, g, c, *self.window(i, j, ki, kj)], [g, o, c, ki, kj], [n, g, o, i, j]]
        image, weight = in_parts(self.padded(image), 1, self.groups), in_parts(weight, 0, self.groups)
        return collapse(sums_of_products(type_, image, weight, maps, 3, tf32_or_half), [[0], [1, 2], [3], [4]])
