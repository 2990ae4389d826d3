"""Decomposes adaptive pooling, where block i of n has the elements from floor(i * size / n) to ceil((i + 1) * size / n).

Element i of `size` is in blocks floor(i * n / size) to ceil((i + 1) * n / size): gradients of averages are pooled to the image's
size. Maxima of blocks of more than 64 elements stay calls of ATen.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch.fx.experimental.symbolic_shapes import statically_known_true

from ...half import in_f32, wide_dtype
from ...undecided import is_unbacked, surely
from ..math.integer import natural_quotient

aten = torch.ops.aten

_MAX_TAPS = 64  # blocks of more would unroll into too many slices


@in_f32
def adaptive_avg_pool2d(x: Tensor, size: Sequence[int]) -> Any:
    """Averages equal blocks where the output size divides the input's. Other sizes use torch's decomposition; where they are
    symbolic, each block is a sum over the whole dimension, of the elements inside."""
    (h, w), (oh, ow) = x.shape[-2:], size
    if surely(x.numel() == 0) or any(surely(n == 0) for n in size):
        return NotImplemented
    if not _are_equal(h, oh) or not _are_equal(w, ow):
        if not _are_open(h, w, oh, ow):
            return decomposition_table[aten._adaptive_avg_pool2d.default](x, size)
        for dim, n in ((-2, oh), (-1, ow)):
            inside, count = _blocks(x, dim, n)
            x = torch.where(inside, x.unsqueeze(dim - 1), 0.0).sum(dim) / count
        return x
    if (oh, ow) == (1, 1):
        return x.mean([-2, -1], True)
    return x.reshape(*x.shape[:-2], oh, h // oh, ow, w // ow).mean([-3, -1])


def adaptive_avg_pool2d_backward(grad: Tensor, x: Tensor) -> Any:
    """Spreads each gradient evenly over its block. An element of several blocks sums their gradients: as many as an average over
    the blocks that it is in has."""
    (h, w), (oh, ow) = x.shape[-2:], grad.shape[-2:]
    if surely(x.numel() == 0) or surely(grad.numel() == 0):
        return NotImplemented
    if not _are_equal(h, oh) or not _are_equal(w, ow):
        if _are_open(h, w, oh, ow):
            return _spread(grad, x)
        wide = grad.to(wide_dtype(grad.dtype)) / (_lengths(grad, h, oh, -2) * _lengths(grad, w, ow, -1))
        mean = decomposition_table[aten._adaptive_avg_pool2d.default](wide, [h, w])
        return (mean * (_lengths(grad, oh, h, -2) * _lengths(grad, ow, w, -1))).to(grad.dtype)
    kh, kw = h // oh, w // ow
    spread = (grad / (kh * kw)).unsqueeze(-1).unsqueeze(-3)
    return spread.expand(*grad.shape[:-2], oh, kh, ow, kw).reshape(x.shape)


@in_f32
def adaptive_avg_pool3d(x: Tensor, size: Sequence[int]) -> Any:
    """Averages planes, then along the first of the three dimensions."""
    if surely(x.numel() == 0) or any(surely(n == 0) for n in size):
        return NotImplemented
    planes = aten._adaptive_avg_pool2d.default(_rows(x, -4, -3), size[1:]).reshape(*x.shape[:-2], *size[1:])
    return aten._adaptive_avg_pool2d.default(_rows(planes, -2, -1), [size[0], size[1] * size[2]]).reshape(*x.shape[:-3], *size)


@in_f32
def adaptive_avg_pool3d_backward(grad: Tensor, x: Tensor) -> Any:
    """Spreads gradients along the first of the three dimensions, then over planes."""
    if surely(x.numel() == 0) or surely(grad.numel() == 0):
        return NotImplemented
    planes = grad.new_empty(*x.shape[:-2], *grad.shape[-2:])
    deep = aten._adaptive_avg_pool2d_backward.default(_rows(grad, -2, -1), _rows(planes, -2, -1)).reshape(planes.shape)
    return aten._adaptive_avg_pool2d_backward.default(_rows(deep, -4, -3), _rows(x, -4, -3)).reshape(x.shape)


def _rows(x: Tensor, first: int, second: int) -> Tensor:
    """Merges two neighboring dimensions, counted from the last."""
    return x.flatten(x.dim() + first, x.dim() + second)


def _lengths(x: Tensor, size: int, blocks: int, dim: int) -> Tensor:
    """Returns how many elements each block of a dimension of `size` has, with the dimensions after it."""
    first, end = _bounds(size, blocks, x.device)
    return (end - first).view(blocks, *[1] * (-1 - dim))


def _bounds(size: int, blocks: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Returns the first element of each block of a dimension of `size`, and the end of it."""
    block = torch.arange(blocks, device=device)
    return natural_quotient(block * size, blocks), natural_quotient((block + 1) * size + (blocks - 1), blocks)


@in_f32
def _spread(grad: Tensor, x: Tensor) -> Tensor:
    """Returns for each element the sum of the gradients of the blocks that have it."""
    for dim in (-2, -1):
        inside, count = _blocks(x, dim, grad.shape[dim])
        grad = torch.where(inside, (grad / count).unsqueeze(dim), 0.0).sum(dim - 1)
    return grad


def _are_equal(size: int, blocks: int) -> bool:
    return statically_known_true(size % blocks == 0)


def _are_open(*sizes: int) -> bool:
    """Returns whether some sizes are symbolic, and torch may guard on all: else its partition of a graph with gradients drops sizes
    that no saved tensor has."""
    return not all(isinstance(n, int) for n in sizes) and not any(map(is_unbacked, sizes))


def _blocks(x: Tensor, dim: int, blocks: int) -> tuple[Tensor, Tensor]:
    """Returns which elements of a dimension each block has, with a dimension of blocks before it, and how many, both with the
    dimensions after it."""
    size = x.shape[dim]
    first, end = _bounds(size, blocks, x.device)
    place = torch.arange(size, device=x.device)
    inside = (place >= first.unsqueeze(-1)) & (place < end.unsqueeze(-1))
    after = (1,) * (-1 - dim)
    return inside.view(blocks, size, *after), (end - first).view(blocks, *after)


def _are_known(*sizes: Sequence[int]) -> bool:
    """Returns whether all sizes are numbers."""
    return all(isinstance(n, int) for s in sizes for n in s)


def _adaptive_max_pool(dims: int) -> Callable[..., Any]:
    """Computes the greatest element of each block (NaN if any is NaN) and its position in the image. Equal blocks are windows."""
    by_windows = aten.max_pool2d_with_indices.default if dims == 2 else aten.max_pool3d_with_indices.default

    def run(x: Tensor, size: Sequence[int]) -> Any:
        """Returns the maxima of the blocks and their places in the image."""
        if surely(x.numel() == 0) or any(surely(n == 0) for n in size) or not x.dtype.is_floating_point:
            return NotImplemented
        before, most = x.shape[-dims:], [-(-n // out) + 1 for n, out in zip(x.shape[-dims:], size, strict=True)]
        if not _are_known(before, size):
            return _greatest_of_blocks(x, size) if _are_open(*before, *size) else NotImplemented
        if (kernel := _equal_blocks(before, size)) is not None:
            return by_windows(x, kernel)
        if math.prod(most) > _MAX_TAPS:
            return NotImplemented
        bounds = [_bounds(n, out, x.device) for n, out in zip(before, size, strict=True)]
        taps = [[torch.minimum(first + k, end - 1) for k in range(m)] for m, (first, end) in zip(most, bounds, strict=True)]
        (best, where), *others = _elements(x, taps)
        for value, place in others:
            where = torch.where((value > best) | (value != value), place, where)
            best = torch.maximum(best, value)
        return best, where

    return run


def _greatest_of_blocks(x: Tensor, size: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Returns the maxima of the blocks and their places in the image: along each dimension, every block looks at the whole row. Of
    equal elements the first is taken, of NaN the last, as in eager."""
    places, width = None, 1
    for dim, blocks in zip(range(-1, -len(size) - 1, -1), reversed(size), strict=True):
        length = x.shape[dim]
        (inside, _), element = _blocks(x, dim, blocks), x.unsqueeze(dim - 1)
        best = torch.where(inside, element, -math.inf).amax(dim)
        number = torch.arange(length, device=x.device).view(length, *[1] * (-1 - dim))
        is_best = inside & ((element == best.unsqueeze(dim)) | element.isnan())
        first, last = torch.where(is_best, number, length).amin(dim), torch.where(is_best, number, -1).amax(dim)
        at = torch.where(best.isnan(), last, first)
        places = at if places is None else at * width + places.gather(dim, at)
        x, width = best, width * length
    assert places is not None
    return x, places


def _elements(x: Tensor, taps: Sequence[Sequence[Tensor]], number: Tensor | None = None) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields the elements of the last dimensions at every combination of their taps, and their row-major numbers in the image.

    taps    of each dimension: the element that each block reads
    number  of the dimensions before these
    """
    dim = -len(taps)
    for at in taps[0]:
        along = at.view(-1, *[1] * (len(taps) - 1))
        place = along if number is None else number * x.shape[dim] + along
        value = x.index_select(dim, at)
        if len(taps) == 1:
            yield value, place
        else:
            yield from _elements(value, taps[1:], place)


def _adaptive_max_pool_backward(dims: int) -> Callable[..., Any]:
    """Sums for each element the gradients of the blocks whose maximum it is: over windows where these are equal, else where the
    positions of the maxima say."""
    op = aten.max_pool2d_with_indices_backward if dims == 2 else aten.max_pool3d_with_indices_backward

    def run(grad: Tensor, x: Tensor, places: Tensor) -> Any:
        """Adds gradients at the places of the maxima."""
        if surely(x.numel() == 0) or surely(grad.numel() == 0):
            return NotImplemented
        sizes = x.shape[-dims:], grad.shape[-dims:]
        if _are_known(*sizes) and (kernel := _equal_blocks(*sizes)) is not None:
            return op.default(grad, x, kernel, kernel, [0] * dims, [1] * dims, False, places)
        wide = grad.to(wide_dtype(grad.dtype)).flatten(-dims)
        total = aten.scatter_add.default(torch.zeros_like(x, dtype=wide.dtype).flatten(-dims), -1, places.flatten(-dims), wide)
        return total.reshape(x.shape).to(grad.dtype)

    return run


def _equal_blocks(before: Sequence[int], after: Sequence[int]) -> list[int] | None:
    """Returns the sizes of equal blocks; None if some are not equal, or there are more elements in one than a window takes."""
    kernel = [n // out for n, out in zip(before, after, strict=True)]
    whole = all(n == k * out for n, k, out in zip(before, kernel, after, strict=True))
    return kernel if whole and math.prod(kernel) <= _MAX_TAPS else None


ADAPTIVE_POOLS: dict[Any, Callable[..., Any]] = {
    aten._adaptive_avg_pool2d.default: adaptive_avg_pool2d,
    aten._adaptive_avg_pool2d_backward.default: adaptive_avg_pool2d_backward,
    aten._adaptive_avg_pool3d.default: adaptive_avg_pool3d,
    aten._adaptive_avg_pool3d_backward.default: adaptive_avg_pool3d_backward,
    aten.adaptive_max_pool2d.default: _adaptive_max_pool(2),
    aten.adaptive_max_pool3d.default: _adaptive_max_pool(3),
    aten.adaptive_max_pool2d_backward.default: _adaptive_max_pool_backward(2),
    aten.adaptive_max_pool3d_backward.default: _adaptive_max_pool_backward(3),
}
