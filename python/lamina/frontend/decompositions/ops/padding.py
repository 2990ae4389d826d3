"""Decomposes gradients of pads that repeat elements of an image: each border is added to the elements that it repeats."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..half import in_f32
from .index import pad

aten = torch.ops.aten


def _folded(mirrored: bool) -> Callable[..., Any]:
    """Returns a decomposition that folds the borders back, one dimension after the other, where they mirror the image or repeat its
    edge. NotImplemented for widths that cut off, or are symbolic."""

    def run(grad: Tensor, x: Tensor, widths: Sequence[int]) -> Any:
        if not all(isinstance(w, int) and w >= 0 for w in widths) or not grad.dtype.is_floating_point:
            return NotImplemented
        for i, (before, after) in enumerate(zip(widths[::2], widths[1::2], strict=True)):
            dim = grad.dim() - 1 - i
            n = x.shape[dim]
            total = aten.slice.Tensor(grad, dim, before, before + n)
            for width, start, repeated in ((before, 0, 1), (after, before + n, n - 1 - after)):
                if not width:
                    continue
                border = aten.slice.Tensor(grad, dim, start, start + width)
                if mirrored:
                    total = total + pad(border.flip(dim), dim, repeated, n - repeated - width)
                else:
                    total = total + pad(border.sum(dim, keepdim=True), dim, start and n - 1, 0 if start else n - 1)
            grad = total
        return grad

    return in_f32(run)


PADS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys(
        (aten.reflection_pad1d_backward.default, aten.reflection_pad2d_backward.default, aten.reflection_pad3d_backward.default),
        _folded(mirrored=True),
    ),
    **dict.fromkeys(
        (aten.replication_pad1d_backward.default, aten.replication_pad2d_backward.default, aten.replication_pad3d_backward.default),
        _folded(mirrored=False),
    ),
}
