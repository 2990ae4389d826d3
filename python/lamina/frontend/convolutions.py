"""Convolutions of half numbers on GPUs in forms that libraries are faster with: few channels, patches that do not overlap."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format

aten = torch.ops.aten

_FEW = 8  # channels, below which tensor cores are not fed: on an H200 cuDNN takes 454 us for a stem whose bytes take 29
_PADDED = 4  # channels that images of fewer are filled up to: cuDNN has kernels for four, of images with an alpha channel


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
    """None for one that stays. x: (batch, channels, height, width), weight: (features, channels, kernel height, kernel width)."""
    half = x.dtype in (torch.float16, torch.bfloat16) and x.dtype is weight.dtype
    if not half or x.dim() != 4 or transposed or groups != 1 or 0 in (*x.shape, *weight.shape):
        return None
    kernel = tuple(weight.shape[2:])
    if kernel != (1, 1) and tuple(stride) == kernel and not any(padding) and all(d == 1 for d in dilation):
        return _of_patches(x, weight, bias)
    if x.shape[1] >= _FEW or x.shape[1] == _PADDED:
        return None
    more = (_PADDED if x.shape[1] < _PADDED else _FEW) - x.shape[1]
    x, weight = (aten.constant_pad_nd.default(t, [0, 0, 0, 0, 0, more]) for t in (x, weight))
    out = aten.convolution.default(x, weight, None, stride, padding, dilation, False, output_padding, 1)
    return out if bias is None else (out + bias.reshape(-1, 1, 1)).to(out.dtype)


def _of_patches(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A product of matrices, whose rows are the patches: a kernel that makes the image writes it so, and cuBLAS adds the bias.

    Patches lie in memory as the image does: channel by channel where they are few, else with the channels last.
    """
    n, c, height, width = x.shape
    features, _, kh, kw = weight.shape
    h, w = height // kh, width // kw
    whole = aten.slice.Tensor(aten.slice.Tensor(x, 2, 0, h * kh), 3, 0, w * kw).reshape(n, c, h, kh, w, kw)
    patches = whole.permute(0, 2, 4, 1, 3, 5) if c < _FEW else whole.permute(0, 2, 4, 3, 5, 1)
    kernels = weight if c < _FEW else weight.permute(0, 2, 3, 1)
    left, right = patches.reshape(n * h * w, c * kh * kw), aten.t.default(kernels.reshape(features, c * kh * kw))
    rows = aten.mm.default(left, right) if bias is None else aten.addmm.default(bias, left, right)
    out = rows.view(n, h, w, features).permute(0, 3, 1, 2)
    last = any(suggest_memory_format(t) is torch.channels_last for t in (x, weight))
    return out if last else aten.clone.default(out, memory_format=torch.contiguous_format)  # as eager gives it
