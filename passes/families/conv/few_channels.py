"""Pads images of few channels, with which tensor cores would be underused, to as many channels as these take.

stride 2, up to 4 channels  blocks of 2x2 pixels become pixels of 16 channels (space to depth), the stride 1
else, up to 7               channels of zeros, where copying the image takes a small part of the convolution's time
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.sizes import SizeLike, at_most, typical

from ...ir.generics import padded, transposed
from ...ir.reading import bytes_of, elements_of, shape_of
from ...ir.reshapes import collapse, expand, sliced

FEW = 8  # channels, below which tensor cores are underused
_FED = 16  # channels to pad to: on an H200, cuDNN is no faster with 4 than with 3, and little with 8
_SMALLEST = 3  # smaller windows do too little work on an image to pay for its copy
_REACHED = 0.05  # of the tensor cores' peak, that cuDNN reaches with few channels
_SHARE = 1 / 3  # of the convolution's time, that the copy of its image may cost


class Window(NamedTuple):
    """Numbers of a convolution, for height and width."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    def covers_image(self, size: Sequence[SizeLike]) -> bool:
        """Returns whether windows of this size, of more than a pixel, lie side by side, and none in the padding."""
        return tuple(size) != (1, 1) and self == (tuple(size), (0, 0), (1, 1))


def with_more_channels(
    image: ir.Value, weight: ir.Value, window: Window, result: Sequence[SizeLike], gpu: Gpu
) -> tuple[ir.Value, ir.Value, Window] | None:
    """Emits image and weight of a convolution of more channels with the same result; None if there are enough, or if more do
    not pay.

    image   (batch, channels, height, width)
    weight  (features, channels, window height, window width)
    result  the shape of the convolution's result
    """
    channels, kernel = shape_of(image)[1], shape_of(weight)[2:]
    if not isinstance(channels, int) or channels >= FEW or not all(isinstance(k, int) and k >= _SMALLEST for k in kernel):
        return None
    if channels <= _FED // 4 and window.stride == (2, 2) and window.dilation == (1, 1):
        found = space_to_depth(image, weight, window.padding, result[2:])
        if found is not None:
            return *found, Window((1, 1), (0, 0), (1, 1))
    if not _pays(image, weight, result, gpu):
        return None
    more = [0, _FED - channels, 0, 0]
    return padded(image, [0] * 4, more), padded(weight, [0] * 4, more), window


def _pays(image: ir.Value, weight: ir.Value, result: Sequence[SizeLike], gpu: Gpu) -> bool:
    """Returns whether padding the image, written and read again, takes a small part of the convolution's time."""
    operations = 2 * typical(math.prod(result)) * elements_of(weight) / typical(shape_of(weight)[0])
    copied = 2 * bytes_of(image) * _FED / typical(shape_of(image)[1])
    return copied / gpu.bandwidth < _SHARE * operations / (_REACHED * gpu.peak("bf16"))


def space_to_depth(
    image: ir.Value, weight: ir.Value, padding: Sequence[int], sizes: Sequence[SizeLike]
) -> tuple[ir.Value, ir.Value] | None:
    """Emits the image and the weight of a convolution of stride 1, without padding, that equals one of stride 2. None if
    symbolic sizes may end before or after the last window.

    The image's first block begins where the first window does, in the padding, and its last block ends with the last window, at
    most a pixel before or after the padding ends. The weight has zeros at its end where its size is odd. sizes: of the result.
    """
    channels, kernel = shape_of(image)[1], shape_of(weight)[2:]
    more, blocks = _FED // 4 - channels, [(k + 1) // 2 for k in kernel]
    after = [2 * (o + b - 1) - p - n for o, b, p, n in zip(sizes, blocks, padding, shape_of(image)[2:], strict=True)]
    if not all(at_most(0, a) or at_most(a, 0) for a in after):
        return None
    batch, _, *size = shape_of(image)
    ends = [a if at_most(0, a) else 0 for a in after]
    covered = [n + a - e for n, a, e in zip(size, after, ends, strict=True)]
    image = image if covered == size else sliced(image, [0] * 4, [batch, channels, *covered], [1] * 4)
    image = padded(image, [0, 0, *padding], [0, more, *ends])
    return _depth(image), _depth(padded(weight, [0] * 4, [0, more, *(k % 2 for k in kernel)]))


def _depth(v: ir.Value) -> ir.Value:
    """Emits 2x2 blocks as channels (space to depth): (n, c, 2 h, 2 w) -> (n, 4 c, h, w)."""
    n, c, height, width = shape_of(v)
    blocks = expand(v, [n, c, height // 2, 2, width // 2, 2], [[0], [1], [2, 3], [4, 5]])
    return collapse(transposed(blocks, [0, 1, 3, 5, 2, 4]), [[0], [1, 2, 3], [4], [5]])
