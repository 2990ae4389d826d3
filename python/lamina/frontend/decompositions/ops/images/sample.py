"""Decomposes the sampling of images at the places of a grid, in two and three dimensions, into gathers, and its gradients.

A place reads the pixels around it: one, two or four along each axis, with weights. The gradient of the image adds to them at
indices, and the gradient of the grid sums over channels what they weigh by the derivatives of the weights.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, mul
from typing import Any

import torch
from torch import Tensor

from ...half import HALF, in_f32, wide_dtype
from ...resized import clamp_positions, cubic_far, cubic_near
from ...undecided import surely
from ..moments import on_cpu

aten = torch.ops.aten

_LINEAR, _NEAREST, _CUBIC = range(3)
_ZEROS, _BORDER, _REFLECTION = range(3)
_BATCH = 2  # dimensions before those of the image: of images and channels


@dataclass(frozen=True)
class _Axis:
    """One axis of the image, and the places of the grid along it.

    size       its length, which may be symbolic
    at         places in pixels, shape [n, 1, *places]; inside the image where the grid is clamped or reflected before it is read
    slope      the derivative of `at` by the grid's coordinate
    """

    size: Any
    at: Tensor
    slope: Tensor | Any
    mode: int
    padding: int
    align: bool

    @staticmethod
    def of(coordinate: Tensor, size: Any, mode: int, padding: int, align: bool) -> "_Axis":
        """Scales coordinates from -1 to 1 to pixels."""
        scale = (size - 1) / 2 if align else size / 2
        at = (coordinate + 1) * scale if align else (coordinate + 1) * scale - 0.5
        if mode == _CUBIC:
            return _Axis(size, at, scale, mode, padding, align)
        at, sign = _bounded(at, size, padding, align)
        return _Axis(size, at, scale if sign is None else sign * scale, mode, padding, align)

    def tap(self, k: Tensor | int, sloped: bool = False) -> "_Tap":
        """Returns the k-th of the pixels that places read. sloped: with the derivative of its weight."""
        if self.mode == _NEAREST:
            return self._tap(torch.round(self.at), None, 0.0)
        low = torch.floor(self.at)
        part = self.at - low
        if self.mode == _LINEAR:
            if isinstance(k, int):
                return self._tap(low + k, part if k else 1 - part, 2.0 * k - 1.0)
            return self._tap(low + k, torch.where(k == 0, 1 - part, part), torch.where(k == 0, -1.0, 1.0) if sloped else 0.0)
        away = part - (k - 1)
        distance = away.abs()
        place, _ = _bounded(low + (k - 1), self.size, self.padding, self.align)

        def of(derivative: int) -> Any:
            """Evaluates the weight or its derivative at the tap's distance."""
            if isinstance(k, int):
                return (cubic_near if k in (1, 2) else cubic_far)(distance, derivative)
            return torch.where((k == 1) | (k == 2), cubic_near(distance, derivative), cubic_far(distance, derivative))

        slope = of(1) if sloped else 0.0
        return self._tap(place, of(0), torch.where(away < 0, -slope, slope) if sloped else 0.0)

    def taps(self, sloped: bool = False) -> list["_Tap"]:
        """Returns the pixels that places read, each once for all combinations with those along other axes."""
        return [self.tap(k, sloped) for k in range(self.count())]

    def count(self) -> int:
        """Returns how many pixels along the axis a place reads."""
        return {_LINEAR: 2, _NEAREST: 1, _CUBIC: 4}[self.mode]

    def _tap(self, place: Tensor, weight: Tensor | None, slope: Tensor | float) -> "_Tap":
        index = clamp_positions(place.to(torch.int32), self.size - 1).to(torch.int64)
        return _Tap(index, (place >= 0) & (place <= self.size - 1), weight, slope)


@dataclass(frozen=True)
class _Tap:
    """A pixel along one axis that each place reads.

    index   clamped into the image
    inside  whether the pixel is in it
    weight  None for 1
    slope   the derivative of the weight by `at`
    """

    index: Tensor
    inside: Tensor
    weight: Tensor | None
    slope: Tensor | float


def _bounded(at: Tensor, size: Any, padding: int, align: bool) -> tuple[Tensor, Tensor | None]:
    """Clamps places to the border, or reflects them there; returns the derivative's sign, too, which is 0 where they were clamped.

    NaN becomes 0, as in eager.
    """
    if padding == _ZEROS:
        return at, None
    sign = torch.ones_like(at)
    if padding == _REFLECTION:
        low, span = (0.0, size - 1) if align else (-0.5, size)
        if surely(span == 0):
            return torch.zeros_like(at), torch.zeros_like(at)
        away = (at - low).abs()
        turned = away - torch.floor(away / (2 * span)) * (2 * span)
        sign = torch.where((at < low) == (turned > span), 1.0, -1.0)
        at = torch.minimum(turned, 2 * span - turned) + low
    last = size - 1
    return torch.where(at > 0, torch.where(at < last, at, last), 0.0), torch.where((at > 0) & (at < last), sign, 0.0)


def _axes(x: Tensor, grid: Tensor, mode: int, padding: int, align: bool) -> list[_Axis]:
    """Returns the axes of an image; the grid's last dimension holds the coordinates, of the last axis first.

    On a GPU, places have the channels' dimension: each thread computes its own, in the kernel that reads. A CPU stores them.
    """
    dims, channels = x.dim() - _BATCH, 1 if on_cpu(x) else x.shape[1]
    coordinates = (grid.select(-1, dims - 1 - d).unsqueeze(1).expand(-1, channels, *[-1] * dims) for d in range(dims))
    return [_Axis.of(c, n, mode, padding, align) for c, n in zip(coordinates, x.shape[_BATCH:], strict=True)]


def _apart(x: Tensor) -> list[Tensor]:
    """Returns the indices of the images and of their channels."""
    rest = [1] * (x.dim() - _BATCH)
    images, channels = (torch.arange(n, device=x.device) for n in x.shape[:_BATCH])
    return [images.view(-1, 1, *rest), channels.view(-1, *rest)]


def _is_refused(x: Tensor, grid: Tensor) -> bool:
    return not x.dtype.is_floating_point or surely(x.numel() == 0) or surely(grid.numel() == 0)


def _read(x: Tensor, apart: Sequence[Tensor], taps: Sequence[_Tap]) -> Tensor:
    """Returns the pixels at one tap for each axis; 0 outside."""
    return torch.where(
        reduce(and_, (tap.inside for tap in taps)), aten.index.Tensor(x, [*apart, *(tap.index for tap in taps)]), 0.0
    )


@in_f32
def grid_sample(x: Tensor, grid: Tensor, mode: int, padding: int, align: bool) -> Any:
    """Sums the pixels that a place reads with their weights, one axis after the other."""
    if _is_refused(x, grid):
        return NotImplemented
    taps, apart = [axis.taps() for axis in _axes(x, grid, mode, padding, align)], _apart(x)

    def along(d: int, chosen: list[_Tap]) -> Tensor:
        """Sums the taps of the dimensions from `d` on, given those chosen before."""
        if d == len(taps):
            return _read(x, apart, chosen)
        values = [(along(d + 1, [*chosen, tap]), tap.weight) for tap in taps[d]]
        first, *others = (v if by is None else v * by for v, by in values)
        return sum(others, start=first)

    return along(0, [])


def grid_sample_backward(grad: Tensor, x: Tensor, grid: Tensor, mode: int, padding: int, align: bool, mask: Sequence[bool]) -> Any:
    """Returns the gradients of the image and of the grid. Half types add in f32."""
    if _is_refused(x, grid):
        return NotImplemented
    wide = (t.to(wide_dtype(x.dtype)) if t.dtype in HALF else t for t in (grad, x, grid))
    flow, image, places = wide
    axes = _axes(image, places, mode, padding, align)
    of_image = _of_image(flow, image, axes).to(x.dtype) if mask[0] else None
    if not mask[1]:
        return of_image, None
    return of_image, torch.zeros_like(grid) if mode == _NEAREST else _of_grid(flow, image, axes).to(grid.dtype)


def _of_image(grad: Tensor, x: Tensor, axes: Sequence[_Axis]) -> Tensor:
    """Adds at once for all pixels that places read: each axis has a dimension for its own."""
    values, taps = grad, list[_Tap]()
    for d, axis in enumerate(axes):
        before = [1] * (len(axes) - 1 - d + grad.dim())
        tap = axis.tap(torch.arange(axis.count(), device=x.device).view(-1, *before))
        taps.append(tap)
        values = values if tap.weight is None else values * tap.weight
    values = torch.where(reduce(and_, (tap.inside for tap in taps)), values, 0.0)
    return aten.index_put.default(torch.zeros_like(x), [*_apart(x), *(tap.index for tap in taps)], values, True)


def _of_grid(grad: Tensor, x: Tensor, axes: Sequence[_Axis]) -> Tensor:
    """Sums over channels, for each coordinate, the pixels with the derivatives of their weights."""
    slopes: list[Any] = [0.0] * len(axes)
    apart = _apart(x)
    for taps in itertools.product(*(axis.taps(sloped=True) for axis in axes)):
        value = _read(x, apart, taps) * grad
        for d in range(len(axes)):
            by = reduce(mul, (tap.slope if i == d else tap.weight for i, tap in enumerate(taps)))
            slopes[d] = slopes[d] + value * by
    scales = (axis.slope.select(1, 0) if isinstance(axis.slope, Tensor) else axis.slope for axis in axes)
    return torch.stack([slope.sum(1) * scale for slope, scale in zip(slopes, scales, strict=True)][::-1], -1)


def cudnn_grid_sample(x: Tensor, grid: Tensor) -> Any:
    """Samples as cuDNN: linearly, with zeros outside and aligned corners."""
    return grid_sample(x, grid, _LINEAR, _ZEROS, True)


def cudnn_grid_sample_backward(x: Tensor, grid: Tensor, grad: Tensor) -> Any:
    """Returns the gradients of the image and of the grid."""
    return grid_sample_backward(grad, x, grid, _LINEAR, _ZEROS, True, (True, True))


SAMPLES: dict[Any, Callable[..., Any]] = {
    aten.grid_sampler_2d.default: grid_sample,
    aten.grid_sampler_3d.default: grid_sample,
    aten.cudnn_grid_sampler.default: cudnn_grid_sample,
    aten.grid_sampler_2d_backward.default: grid_sample_backward,
    aten.grid_sampler_3d_backward.default: grid_sample_backward,
    aten.cudnn_grid_sampler_backward.default: cudnn_grid_sample_backward,
}
