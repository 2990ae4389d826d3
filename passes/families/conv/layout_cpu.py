"""Chooses which convolutions of a CPU's graph have their channels last, by rules about oneDNN's kernels."""

import math
from collections.abc import Sequence

from torch_mlir import ir

from lamina.core.sizes import typical

from ...ir.affine import row_major
from ...ir.extern_calls import memory_strides
from ...ir.reading import shape_of
from .calls import Convolution, channels_last

_VECTOR = 16  # f32 channels of a vector of oneDNN


def suits_frozen(calls: Sequence[Convolution]) -> list[Convolution]:
    """Returns the f32 convolutions whose weight the runtime packs: an argument of @main. Transposed ones stay."""
    return [c for c in _forward(calls) if not c.transposed and isinstance(c.op.operands[1], ir.BlockArgument)]


def suits_slow(calls: Sequence[Convolution]) -> list[Convolution]:
    """Returns the f32 convolutions that are slow in oneDNN with channels first, and all others whose weights are smaller than
    their images. Gradients take the layout that the saved image has, in which oneDNN computes them, and copies the rest."""
    slow = [c for c in _forward(calls) if _is_slow(c)]
    saved = [c for c in calls if c.is_gradient and c.element == "f32" and _is_saved_channels_last(c.image)]
    return [c for c in _forward(calls) if c in slow or (slow and _has_small_weights(c.op))] + saved


def _forward(calls: Sequence[Convolution]) -> list[Convolution]:
    return [c for c in calls if not c.is_gradient and c.element == "f32"]


def _is_slow(call: Convolution) -> bool:
    """Returns whether oneDNN has no fast kernel for a convolution with channels first. It has one for 1x1 windows, and where the
    channels of a group fill vectors; elsewhere it takes 1.2 to 13 times as long as with channels last. Depthwise ones are Lamina's
    kernels (passes/families/conv/depthwise_cpu.py)."""
    image, weight, result = (tuple(map(typical, shape_of(v))) for v in (*call.images, call.op.results[0]))
    ragged = image[1] // call.groups % _VECTOR or result[1] // call.groups % _VECTOR
    return image[1] > 1 and not call.suits_planes and (call.transposed or bool(ragged and weight[2] * weight[3] > 1))


def _is_saved_channels_last(image: ir.Value) -> bool:
    strides = memory_strides(image) if isinstance(image, ir.BlockArgument) else ()
    return strides == channels_last(shape_of(image)) != row_major(shape_of(image))


def _has_small_weights(op: ir.Operation) -> bool:
    image, weight, result = (typical(math.prod(shape_of(v))) for v in (op.operands[0], op.operands[1], op.results[0]))
    return weight < (image + result) // 2
