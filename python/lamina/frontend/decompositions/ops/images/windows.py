"""Decomposes sums of overlapping windows of a dimension (fold), and gradients of reflected and repeated borders, into sums of
shifted rows. Nothing is scattered.

The sum of windows is what overlap-add is, and the gradient of taking windows: `unfold`, `im2col`, `stft`. Where windows start
`step` elements apart, the result is seen as rows of `step` elements. Each window then covers whole rows, except the last, so that
the j-th row of all windows, moved by j rows, is one term of the sum.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ...half import in_f32, wide_dtype
from ...undecided import is_unbacked, surely
from ..index import pad

aten = torch.ops.aten

_MOST = 64  # terms of one sum; with more, ATen adds


def unfold_backward(grad: Tensor, sizes: Sequence[int], dim: int, size: int, step: int) -> Any:
    """Sums for each element the gradients of the windows that it is in."""
    dim = dim % len(sizes) if sizes else 0
    if not sizes or -(-size // step) > _MOST or surely(grad.numel() == 0):
        return NotImplemented
    if grad.dim() != len(sizes) + 1 or not surely(grad.shape[-1] == size) or not grad.dtype.is_floating_point:
        return NotImplemented
    wide = grad.to(wide_dtype(grad.dtype)).movedim(-1, dim + 1)
    return _sum_of_windows(wide, dim, sizes[dim], step).to(grad.dtype)


def col2im(x: Tensor, output_size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """Sums columns of patches into an image, one dimension after the other."""
    given = list(zip(output_size, kernel, dilation, padding, stride, strict=True))
    terms = math.prod(k if d > 1 else -(-k // s) for _, k, d, _, s in given)
    if terms > _MOST or not x.dtype.is_floating_point or surely(x.numel() == 0):
        return NotImplemented
    blocks = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in given]
    *batch, rows, _ = x.shape
    image, dim = x.to(wide_dtype(x.dtype)).reshape(*batch, rows // math.prod(kernel), *kernel, *blocks), len(batch) + 1
    for i, (n, _, d, p, s) in enumerate(given):  # dimensions: [..., window's row, its column, block's row, block's column]
        image = _sum_of_windows(image.movedim(-2 + i, dim + i), dim + i, n, s, d, p)
    return image.to(x.dtype)


def _is_known(length: Any, step: int) -> bool:
    """Returns whether a dimension can be seen as rows of `step` elements."""
    return step == 1 or isinstance(length, int)


def _sum_of_windows(x: Tensor, dim: int, length: int, step: int, dilation: int = 1, outside: int = 0) -> Tensor:
    """Returns for each of `length` places along `dim` the sum of what the windows in dimensions `dim` and dim + 1 of `x` hold for
    it. The first window starts `outside` elements before the first place."""
    if not _is_known(length, step):
        return _sum_of_found(x, dim, length, step, dilation, outside)
    count, size = x.shape[dim : dim + 2]
    width = step if dilation == 1 else 1  # elements of a window that lie side by side in one row
    before = -outside % width
    terms, rows = -(-(before + size) // width), -(-length // step)
    parts = pad(x, dim + 1, before, terms * width - before - size).unflatten(dim + 1, (terms, width))
    total = None
    for j in range(terms):
        row, place = divmod(j * width * dilation - before - outside, step)
        if surely(row >= rows) or surely(row + count <= 0):
            continue
        part = pad(parts.select(dim + 1, j), dim + 1, place, step - width - place)
        part = pad(part, dim, row, rows - row - count)
        total = part if total is None else total + part
    if total is None:
        total = x.new_zeros(*x.shape[:dim], rows, step, *x.shape[dim + 2 :])
    return aten.slice.Tensor(total.flatten(dim, dim + 1), dim, 0, length)


def _sum_of_found(x: Tensor, dim: int, length: int, step: int, dilation: int, outside: int) -> Tensor:
    """Computes `_sum_of_windows` where torch would guard on whether the length is a multiple of the step: each place looks up its
    element of the j-th of the windows that may have it, or the zero after the last element."""
    count, size = x.shape[dim : dim + 2]
    place = torch.arange(length, device=x.device) + outside
    elements, total = pad(x.flatten(dim, dim + 1), dim, 0, 1), None
    for j in range(size if dilation > 1 else -(-size // step)):
        if dilation > 1:
            window, column = (place - j * dilation) // step, torch.full_like(place, j)
        else:
            window, column = place // step - j, place % step + j * step
        found = (window >= 0) & (window < count) & (column < size) & (window * step + column * dilation == place)
        part = elements.index_select(dim, torch.where(found, window * size + column, count * size))
        total = part if total is None else total + part
    assert total is not None
    return total


def _folded(mirrored: bool) -> Callable[..., Any]:
    """Returns a decomposition that folds the borders back, one dimension after the other, where they mirror the image or repeat its
    edge. What negative widths cut off has no gradient."""

    def run(grad: Tensor, x: Tensor, widths: Sequence[int]) -> Any:
        """Adds the gradient of each padding to the elements that it repeats."""
        if any(map(is_unbacked, widths)) or not grad.dtype.is_floating_point:
            return NotImplemented
        for i, (before, after) in enumerate(zip(widths[::2], widths[1::2], strict=True)):
            dim = grad.dim() - 1 - i
            n = x.shape[dim]
            grad, before, after = pad(grad, dim, max(-before, 0), max(-after, 0)), max(before, 0), max(after, 0)
            total = aten.slice.Tensor(grad, dim, before, before + n)
            for width, start, repeated, edge in ((before, 0, 1, 0), (after, before + n, n - 1 - after, n - 1)):
                if width == 0:
                    continue
                border = aten.slice.Tensor(grad, dim, start, start + width)
                if mirrored:
                    total = total + pad(border.flip(dim), dim, repeated, n - repeated - width)
                else:
                    total = total + pad(border.sum(dim, keepdim=True), dim, edge, n - 1 - edge)
            grad = total
        return grad

    return in_f32(run)


WINDOWS: dict[Any, Callable[..., Any]] = {
    aten.unfold_backward.default: unfold_backward,
    aten.col2im.default: col2im,
    **dict.fromkeys(
        (aten.reflection_pad1d_backward.default, aten.reflection_pad2d_backward.default, aten.reflection_pad3d_backward.default),
        _folded(mirrored=True),
    ),
    **dict.fromkeys(
        (aten.replication_pad1d_backward.default, aten.replication_pad2d_backward.default, aten.replication_pad3d_backward.default),
        _folded(mirrored=False),
    ),
}
