"""Rewrites half-precision convolutions on GPUs into forms that libraries run faster: few channels, patches that do not overlap."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format

from ..fx.destination import convolutions_round_to_tf32

aten = torch.ops.aten

FEW = 8  # channels, below which tensor cores are underused
_FED = 16  # channels to pad to: on an H200, cuDNN is no faster with 4 than with 3, and little with 8
_SMALLEST = 3  # smaller kernels do too little work on an image to pay for its copy
_RATE = 50e12  # operations a second that cuDNN reaches with few channels
_BANDWIDTH = 4e12  # bytes a second
_SHARE = 1 / 3  # of the convolution's time, that the copy of its image may cost


def in_another_form(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor | None:
    """Emits the convolution in a faster form; None where there is none.

    x       (batch, channels, height, width)
    weight  (features, channels, kernel height, kernel width)
    """
    half = x.dtype in (torch.float16, torch.bfloat16) and x.dtype is weight.dtype
    if not half or x.dim() != 4 or transposed or groups != 1 or 0 in (*x.shape, *weight.shape):
        return None
    stride, padding, dilation = _pair(stride), _pair(padding), _pair(dilation)
    kernel = tuple(weight.shape[2:])
    if kernel != (1, 1) and stride == kernel and not any(padding) and dilation == (1, 1):
        return _of_patches(x, weight, bias)
    if x.shape[1] >= FEW or min(kernel) < _SMALLEST:
        return None
    if x.shape[1] <= _FED // 4 and stride == (2, 2) and dilation == (1, 1):
        x, weight = of_blocks(x, weight, padding)
        stride, padding = (1, 1), (0, 0)
    elif _pays(x, weight, stride, padding, dilation):
        x, weight = (aten.constant_pad_nd.default(t, [0, 0, 0, 0, 0, _FED - t.shape[1]]) for t in (x, weight))
    else:
        return None
    out = aten.convolution.default(x, weight, None, stride, padding, dilation, False, output_padding, 1)
    return out if bias is None else (out + bias.reshape(-1, 1, 1)).to(out.dtype)


def is_of_rows(x: Tensor, weight: Tensor, *rest: Any) -> bool:
    """Returns whether a convolution is 1-D, not transposed, and of half types or of f32 that may be rounded to tf32.

    x     (batch, channels, length)
    rest  stride, padding, dilation, transposed, output padding, groups
    """
    _, _, _, transposed, _, _ = rest
    rounded = x.dtype in (torch.float16, torch.bfloat16) or (x.dtype == torch.float32 and convolutions_round_to_tf32())
    return (
        rounded
        and x.dtype is weight.dtype
        and x.dim() == weight.dim() == 3
        and not transposed
        and 0 not in (*x.shape, *weight.shape)
    )


def of_rows(x: Tensor, weight: Tensor, bias: Tensor | None, *how: Any) -> Tensor:
    """Computes a 1-D convolution as a 2-D one on images of one row, which may be channels-last."""
    image, kernel = x.contiguous().unsqueeze(2), weight.unsqueeze(2)  # contiguous as in eager
    out = aten.convolution.default(image, kernel, None, *across(*how)).squeeze(2)
    return out if bias is None else (out + bias.reshape(-1, 1)).to(out.dtype)


def across(stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], *rest: Any) -> list[Any]:
    """Returns the arguments of a 1-D convolution for images of one row. rest: transposed, the output padding, groups."""
    transposed, output_padding, groups = rest
    return [[1, *stride], [0, *padding], [1, *dilation], transposed, [0, *output_padding], groups]


def _pair(of: Sequence[int]) -> tuple[int, ...]:
    """The values for height and width; torch accepts one number for both."""
    return tuple(of) * (2 // len(of))


def _sizes(x: Tensor, weight: Tensor, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]) -> tuple[int, ...]:
    """Height and width of the result."""
    spans = (d * (k - 1) + 1 for d, k in zip(dilation, weight.shape[2:], strict=True))
    return tuple((n + 2 * p - k) // s + 1 for n, p, k, s in zip(x.shape[2:], padding, spans, stride, strict=True))


def _pays(x: Tensor, weight: Tensor, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]) -> bool:
    """Returns whether padding the image to _FED channels, written and read again, takes a small part of the convolution's time."""
    n, _, height, width = x.shape
    operations = 2 * n * math.prod(_sizes(x, weight, stride, padding, dilation)) * weight.numel()
    return 2 * n * height * width * _FED * x.itemsize / _BANDWIDTH < _SHARE * operations / _RATE


def of_blocks(x: Tensor, weight: Tensor, padding: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Returns the image and the weight of a convolution of stride 1, without padding, that equals one of stride 2 (space to depth).

    Blocks of 2x2 pixels become pixels of four times the channels. The image's first block begins where the first patch does, in the
    padding, and its last block ends with the last patch, at most a pixel before or after the padding ends. The weight has zeros at
    its end where its size is odd.
    """
    sizes = _sizes(x, weight, (2, 2), padding, (1, 1))
    blocks = [(k + 1) // 2 for k in weight.shape[2:]]
    top, left = padding
    bottom, right = (2 * (o + b - 1) - p - n for o, b, p, n in zip(sizes, blocks, padding, x.shape[2:], strict=True))
    more = _FED // 4 - x.shape[1]
    image = _depth(aten.constant_pad_nd.default(x, [left, right, top, bottom, 0, more]))
    if _is_last(x, weight):  # the result is channels-last then
        image = aten.clone.default(image, memory_format=torch.channels_last)
    odd = [k % 2 for k in weight.shape[2:]]
    return image, _depth(aten.constant_pad_nd.default(weight, [0, odd[1], 0, odd[0], 0, more]))


def _depth(x: Tensor) -> Tensor:
    """Moves 2x2 blocks into channels (space to depth): (n, c, 2 h, 2 w) -> (n, 4 c, h, w)."""
    n, c, height, width = x.shape
    blocks = x.view(n, c, height // 2, 2, width // 2, 2).permute(0, 1, 3, 5, 2, 4)
    return blocks.reshape(n, 4 * c, height // 2, width // 2)


def _of_patches(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A matrix product whose rows are the patches: the kernel that produces the image writes patches, and cuBLAS adds the bias.

    Patches are laid out as the image is: channel by channel where there are few channels, else channels-last.
    """
    n, c, height, width = x.shape
    features, _, kh, kw = weight.shape
    h, w = height // kh, width // kw
    whole = aten.slice.Tensor(aten.slice.Tensor(x, 2, 0, h * kh), 3, 0, w * kw).reshape(n, c, h, kh, w, kw)
    patches = whole.permute(0, 2, 4, 1, 3, 5) if c < FEW else whole.permute(0, 2, 4, 3, 5, 1)
    kernels = weight if c < FEW else weight.permute(0, 2, 3, 1)
    left, right = patches.reshape(n * h * w, c * kh * kw), aten.t.default(kernels.reshape(features, c * kh * kw))
    rows = aten.mm.default(left, right) if bias is None else aten.addmm.default(bias, left, right)
    out = rows.view(n, h, w, features).permute(0, 3, 1, 2)
    return out if _is_last(x, weight) else aten.clone.default(out, memory_format=torch.contiguous_format)  # as eager gives it


def _is_last(x: Tensor, weight: Tensor) -> bool:
    """Returns whether eager returns a channels-last result."""
    return any(suggest_memory_format(t) is torch.channels_last for t in (x, weight))
