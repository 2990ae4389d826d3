"""Decomposes adaptive pooling, where block i of n averages the elements from floor(i * size / n) to ceil((i + 1) * size / n)."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch.fx.experimental.symbolic_shapes import statically_known_true

from ..half import in_f32
from ..undecided import is_unbacked, surely

aten = torch.ops.aten


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
    """Spreads each gradient evenly over its block; NotImplemented where blocks are not equal and sizes are numbers."""
    (h, w), (oh, ow) = x.shape[-2:], grad.shape[-2:]
    if not _are_equal(h, oh) or not _are_equal(w, ow):
        if not _are_open(h, w, oh, ow):
            return NotImplemented
        return _spread(grad, x)
    kh, kw = h // oh, w // ow
    spread = (grad / (kh * kw)).unsqueeze(-1).unsqueeze(-3)
    return spread.expand(*grad.shape[:-2], oh, kh, ow, kw).reshape(x.shape)


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
    block, size = torch.arange(blocks, device=x.device), x.shape[dim]
    first, end = block * size // blocks, ((block + 1) * size + (blocks - 1)) // blocks
    place = torch.arange(size, device=x.device)
    inside = (place >= first.unsqueeze(-1)) & (place < end.unsqueeze(-1))
    after = (1,) * (-1 - dim)
    return inside.view(blocks, size, *after), (end - first).view(blocks, *after)


ADAPTIVE_POOLS: dict[Any, Callable[..., Any]] = {
    aten._adaptive_avg_pool2d.default: adaptive_avg_pool2d,
    aten._adaptive_avg_pool2d_backward.default: adaptive_avg_pool2d_backward,
}
