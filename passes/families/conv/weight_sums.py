"""Emits gradients of the weights of depthwise convolutions as sums of products; one kernel computes several."""

import math

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from lamina.core.dtypes import HALF
from lamina.core.sizes import is_symbolic

from ...ir.generics import padded, spread, sums_of_products
from ...ir.reading import element_type, shape_of
from ...ir.reshapes import expand, sliced
from ...ir.sizes import sizes_of, tensor_type
from .few_channels import Window

MOST = 4  # elements of a window: a thread has eight sums for each in its registers, and nine elements are too many for these


def weight_sums(grad: ir.Value, image: ir.Value, window: Window, type_: ir.RankedTensorType) -> ir.Value | None:
    """Emits the gradient of a depthwise convolution's weight: for each element of the window, the sum over images and pixels of the
    result's gradient times the pixel that the element meets. Both are read once; a library's kernels may transpose them first.

    type_  of the weight: (channels, 1, height, width)

    None for more than MOST elements, strides, several features per channel, and elements that are not f16 or bf16.
    """
    shape = sizes_of(type_)
    if is_symbolic(shape) or is_symbolic(shape_of(grad)[1:2]) or window.stride != (1, 1) or element_type(grad) not in HALF:
        return None
    channels, one, *size = shape
    if one != 1 or shape_of(image)[1] != channels or not 1 < math.prod(size) <= MOST:
        return None
    around = [0, 0, *window.padding]
    whole = padded(image, around, around) if any(around) else image
    pixels = shape_of(grad)
    sums = tensor_type([channels], ir.F32Type.get())
    c, n, i, j = (ir.AffineDimExpr.get(d) for d in range(4))
    maps = [[n, c, i, j], [n, c, i, j], [c]]
    parts = [
        expand(sums_of_products(sums, sliced(whole, [0, 0, *at], pixels, [1] * 4), grad, maps, 3), [channels, 1], [[0, 1]])
        for at in ([y * window.dilation[0], x * window.dilation[1]] for y in range(size[0]) for x in range(size[1]))
    ]
    rows = tensor.ConcatOp(tensor_type([channels, len(parts)], ir.F32Type.get()), 1, parts).result
    return spread(expand(rows, shape, [[0, 1], [2, 3]]), type_, make=lambda x: arith.truncf(type_.element_type, x))
