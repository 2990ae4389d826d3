"""Memory layouts of arguments that callers pass: contiguous, strided, expanded and so on."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree


def contiguous(t: Tensor) -> Tensor:
    return t.contiguous()


def sliced(t: Tensor) -> Tensor:
    """Returns a part of a larger tensor: every other element of its last dimension, after an offset."""
    if not t.dim():
        return t.new_zeros(3)[2].copy_(t)
    base = t.new_zeros([*(n + 2 for n in t.shape[:-1]), 2 * t.shape[-1] + 1])
    return base[tuple(slice(1, n + 1) for n in t.shape[:-1])][..., 1::2].copy_(t)


def transposed(t: Tensor) -> Tensor:
    """Returns a copy whose dimensions are in reverse order in memory."""
    return t.permute(*reversed(range(t.dim()))).contiguous().permute(*reversed(range(t.dim())))


def expanded(t: Tensor) -> Tensor:
    """Returns one row, expanded to all rows."""
    return t[:1].clone().expand_as(t) if t.dim() and t.numel() else t.clone()


def channels_last(t: Tensor) -> Tensor:
    """Returns a copy whose second dimension is innermost in memory."""
    return t.movedim(1, -1).contiguous().movedim(-1, 1) if t.dim() > 2 else t.clone()


def aliased(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Returns the tensors of one dtype as views of one storage: equal shapes are the same tensor, others overlap."""
    largest = {t.dtype: t for t in sorted(tensors, key=lambda t: t.numel())}
    bases = {dtype: torch.cat([t.reshape(-1), t.reshape(-1)]) for dtype, t in largest.items()}
    views: dict[Any, Tensor] = {}
    for i, t in enumerate(tensors):
        key = (t.dtype, t.shape)
        if key not in views:
            views[key] = bases[t.dtype][i % max(1, t.numel()) :][: t.numel()].view(t.shape)
    return [views[t.dtype, t.shape] for t in tensors]


def _each(layout: Callable[[Tensor], Tensor]) -> Callable[[Sequence[Tensor]], list[Tensor]]:
    return lambda tensors: [layout(t) for t in tensors]


LAYOUTS: dict[str, Callable[[Sequence[Tensor]], list[Tensor]]] = {
    **{one.__name__: _each(one) for one in (contiguous, sliced, transposed, expanded, channels_last)},
    "aliased": aliased,
}


def arranged(args: Any, layout: str) -> Any:
    """Returns the same tree with its tensors in a layout, as leaves of autograd."""
    leaves, spec = pytree.tree_flatten(args)
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    found: dict[int, Tensor] = {}
    for old, new in zip(tensors, LAYOUTS[layout]([t.detach() for t in tensors]), strict=True):
        found.setdefault(id(old), new)
    return pytree.tree_unflatten([found[id(leaf)] if isinstance(leaf, Tensor) else leaf for leaf in leaves], spec)


def fitting(args: Any, rng: random.Random, count: int) -> list[str]:
    """Returns so many layouts that apply to these arguments, in a random order, contiguous among them."""
    tensors = [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, Tensor)]
    dtypes = [t.dtype for t in tensors]
    others = [
        *(["sliced"] if tensors else []),
        *(["transposed", "expanded"] if any(t.dim() > 1 for t in tensors) else []),
        *(["channels_last"] if any(t.dim() > 2 for t in tensors) else []),
        *(["aliased"] if len(set(dtypes)) < len(dtypes) else []),
    ]
    chosen = ["contiguous", *rng.sample(others, min(count - 1, len(others)))]
    return rng.sample(chosen, len(chosen))
