"""Decomposes pooling over windows at random places into gathers, and its gradient into a scatter."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ...half import in_f32
from ...undecided import surely

aten = torch.ops.aten


def _starts(samples: Tensor, size: int, window: int, count: int) -> Tensor:
    """Returns the first places of `count` windows in a dimension, for each sample: about evenly spaced, the last one at the end."""
    if count == 1:
        return torch.full((*samples.shape, 1), size - window, device=samples.device)
    step = (size - window) / (count - 1)
    number = torch.arange(count, device=samples.device)
    moved, first = (number + samples.unsqueeze(-1)) * step, samples.unsqueeze(-1) * step
    return torch.where(number == count - 1, size - window, moved.to(torch.int64) - first.to(torch.int64))


def fractional_max_pool(x: Tensor, kernel: Sequence[int], output_size: Sequence[int], samples: Tensor) -> Any:
    """Returns the greatest elements of windows, or their first NaN, and the places of these in the flattened image."""
    dims = len(kernel)
    batch, sizes = x.shape[:-dims], x.shape[-dims:]
    if x.dtype not in (torch.float32, torch.float64) or not all(isinstance(n, int) for n in sizes) or surely(x.numel() == 0):
        return NotImplemented
    samples = samples if len(batch) == 2 else samples[0]
    order = (1, 0) if dims == 2 else (0, 1, 2)  # of samples
    place: Any = 0
    for d, (n, k, count) in enumerate(zip(sizes, kernel, output_size, strict=True)):
        along = _starts(samples[..., order[d]], n, k, count).unsqueeze(-1) + torch.arange(k, device=x.device)
        shape = [1] * (2 * dims)
        shape[d], shape[dims + d] = count, k
        place = place * n + along.reshape(*batch, *shape)
    windows = place.reshape(*batch, math.prod(output_size), math.prod(kernel))
    values = x.flatten(-dims).gather(-1, windows.flatten(-2)).reshape(windows.shape)
    best = values.argmax(-1, True)
    return tuple(t.gather(-1, best).reshape(*batch, *output_size) for t in (values, windows))


def fractional_max_pool_backward(grad: Tensor, x: Tensor, kernel: Any, output_size: Sequence[int], places: Tensor) -> Any:
    """Adds each gradient to the place that its maximum was met at."""
    dims = len(output_size)
    if surely(x.numel() == 0):
        return NotImplemented
    zeros = torch.zeros_like(x, memory_format=torch.contiguous_format).flatten(-dims)
    return in_f32(aten.scatter_add.default)(zeros, -1, places.flatten(-dims), grad.flatten(-dims)).reshape(x.shape)


FRACTIONAL_POOLS: dict[Any, Callable[..., Any]] = {
    aten.fractional_max_pool2d.default: fractional_max_pool,
    aten.fractional_max_pool3d.default: fractional_max_pool,
    aten.fractional_max_pool2d_backward.default: fractional_max_pool_backward,
    aten.fractional_max_pool3d_backward.default: fractional_max_pool_backward,
}
