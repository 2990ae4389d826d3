"""Decomposes antialiased interpolation and its gradients, one axis after another.

A result is a weighted sum over a window of elements, which is as much wider than without antialiasing as results are fewer. A
gradient is the same sum over the results that read an element. Places and weights are tables made of positions, which are
constants of the program where sizes are known. Axes whose scale a symbolic size decides are ATen's.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...half import in_f32
from ...resized import ResizedAxis, clamp_positions, resized_axes
from ...undecided import surely
from .resize import overloads_of, scales_of

aten = torch.ops.aten

_MOST = 16  # terms of a sum that are written out; more are a reduction


def _triangle(x: Tensor) -> Tensor:
    """Weighs linearly, up to a distance of 1."""
    return (1 - x.abs()).clamp(min=0)


def _cubic(x: Tensor) -> Tensor:
    """Weighs by the cubic convolution with a = -0.5, up to a distance of 2."""
    d = x.abs()
    far = ((2.5 - 0.5 * d) * d - 4) * d + 2
    return torch.where(d < 1, (1.5 * d - 2.5) * d * d + 1, torch.where(d < 2, far, 0.0))


@dataclass(frozen=True)
class _Filter:
    """A filter along an axis, in f64.

    axis    the axis, whose scale is a number
    width   the distance up to which results as dense as elements weigh elements
    weigh   their weight by distance
    device  where tables are made
    """

    axis: ResizedAxis
    width: int
    weigh: Callable[[Tensor], Tensor]
    device: torch.device

    @property
    def _stretch(self) -> float:
        return max(self.axis.scale, 1.0)

    @property
    def _reach(self) -> float:
        return self.width * self._stretch

    def _ramp(self, n: int) -> Tensor:
        return torch.arange(n, dtype=torch.float64, device=self.device)

    def _weights(self, results: Tensor, places: Tensor) -> Tensor:
        """Returns the weights of elements in each result, before these are divided by their sum; 0 outside of a result's window."""
        center = (results + 0.5) * self.axis.scale
        first, end = (center - self._reach + 0.5).floor(), (center + self._reach + 0.5).floor()
        inside = (places >= first) & (places < end) & (places >= 0) & (places < self.axis.size)
        return torch.where(inside, self.weigh((places - center + 0.5) / self._stretch), 0.0)

    def _windows(self) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the elements that each result may read, its weights for them, and the sums by which these are divided."""
        results = self._ramp(self.axis.out).unsqueeze(1)
        first = ((results + 0.5) * self.axis.scale - self._reach + 0.5).floor().clamp(min=0)
        places = first + self._ramp(math.floor(2 * self._reach) + 1)
        weights = self._weights(results, places)
        total = weights.sum(1, keepdim=True)
        return places, weights, torch.where(total == 0, 1.0, total)

    def read(self) -> tuple[Tensor, Tensor]:
        """Returns the elements that each result reads, and its weights for them."""
        places, weights, total = self._windows()
        return places, weights / total

    def readers(self) -> tuple[Tensor, Tensor]:
        """Returns the results that read each element, and their weights for it."""
        scale, out = self.axis.scale, self.axis.out
        elements = self._ramp(self.axis.size).unsqueeze(1)
        if scale:
            first = ((elements + 0.5 - self._reach) / scale - 0.5).ceil().clamp(min=0)
            results = first + self._ramp(math.ceil(2 * self._reach / scale))
        else:  # one element, or one result, with aligned corners
            results = elements * 0 + self._ramp(out)
        weights = torch.where(results < out, self._weights(results, elements), 0.0)
        sums = self._windows()[2].squeeze(1)
        divisors = sums.index_select(0, _whole(results, out).flatten()).view(results.shape)
        return results, weights / divisors


def _whole(places: Tensor, size: int) -> Tensor:
    return clamp_positions(places.to(torch.int32), size - 1)  # type: ignore[no-any-return]


def _summed(x: Tensor, dim: int, places: Tensor, weights: Tensor) -> Tensor:
    """Adds up weighted elements along an axis. places, weights: a row for each result."""
    places, weights, terms = _whole(places, x.shape[dim]), weights.to(x.dtype), places.shape[1]
    after = [1] * (x.dim() - 1 - dim)
    if terms > _MOST:
        wide = x.index_select(dim, places.flatten()).unflatten(dim, places.shape)
        return (wide * weights.view([*weights.shape, *after])).sum(dim + 1)
    first, *others = (x.index_select(dim, places[:, k]) * weights[:, k].reshape([-1, *after]) for k in range(terms))
    return sum(others, start=first)


def _resized(x: Tensor, filters: Sequence[_Filter], table: Callable[[_Filter], Any]) -> Tensor:
    for f in filters:
        x = _summed(x, x.dim() + f.axis.dim, *table(f))
    return x if filters else x.clone()


def _filters(
    weigh: Callable[[Tensor], Tensor], width: int, axes: Sequence[ResizedAxis], x: Tensor, *sizes: Sequence[int]
) -> list[_Filter] | None:
    """Returns the filters of all axes; None for what is ATen's."""
    if not x.dtype.is_floating_point or any(surely(n == 0) for shape in (x.shape, *sizes) for n in shape):
        return None
    if not all(isinstance(axis.scale, float | int) for axis in axes):
        return None
    return [_Filter(axis, width, weigh, x.device) for axis in axes]


def _forward(weigh: Callable[[Tensor], Tensor], width: int) -> Callable[..., Any]:
    """Decomposes the interpolation of images by a filter."""

    def run(x: Tensor, output_size: Sequence[int], align_corners: bool, *scales: float | None, **named: float | None) -> Any:
        """Resizes by a filter as wide as the step between outputs."""
        axes = resized_axes(x.shape[-2:], output_size, "linear", align_corners, scales_of(2, scales, named))
        filters = _filters(weigh, width, axes, x, output_size)
        return NotImplemented if filters is None else _resized(x, filters, _Filter.read)

    return in_f32(run)


def _backward(weigh: Callable[[Tensor], Tensor], width: int) -> Callable[..., Any]:
    """Decomposes its gradient."""

    def run(
        grad: Tensor,
        output_size: Sequence[int],
        input_size: Sequence[int],
        align: bool,
        *scales: float | None,
        **named: float | None,
    ) -> Any:
        """Computes the gradient of the resized image."""
        axes = resized_axes(input_size[-2:], output_size, "linear", align, scales_of(2, scales, named))
        filters = _filters(weigh, width, axes, grad, input_size)
        return NotImplemented if filters is None else _resized(grad, filters, _Filter.readers)

    return in_f32(run)


ANTIALIASED: dict[Any, Callable[..., Any]] = {
    op: fn
    for name, weigh, width in (("bilinear", _triangle, 1), ("bicubic", _cubic, 2))
    for op, fn in overloads_of(f"_upsample_{name}2d_aa", _forward(weigh, width), _backward(weigh, width)).items()
}
