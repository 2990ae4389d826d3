"""Maps the dimensions of a moved, repeated or indexed tensor to those of its source."""

from collections.abc import Sequence
from typing import Any

from torch import fx

from ..fx.reading import name, shape, value

SAME = (
    "to", "float", "half", "bfloat16", "double", "long", "int", "type", "contiguous", "clone", "alias", "_to_copy", "detach",
    "expand", "expand_as", "broadcast_to",
)  # fmt: skip
"""Ops that keep the elements of a tensor, and may repeat them along new dimensions or those of size 1."""


def order_of(node: fx.Node) -> Sequence[int | None] | None:
    """Returns for each dimension of a result the dimension of the first argument that it is, None for new ones; None if that is
    not known."""
    kind, source = name(node), node.args[0]
    rank = len(shape(source))
    if value(source) is None:
        return None
    if kind in SAME:
        return [*[None] * (len(shape(node)) - rank), *range(rank)]
    if kind in ("T", "t", "mT", "transpose"):
        dims = [d % rank for d in node.args[1:] if isinstance(d, int)] if kind == "transpose" else [rank - 2, rank - 1]
        if rank < 2 or len(dims) != 2:
            return None
        order: list[int | None] = list(range(rank))
        order[dims[0]], order[dims[1]] = dims[1], dims[0]
        return order
    if kind == "unsqueeze":
        dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
        if not isinstance(dim, int):
            return None
        order = list(range(rank))
        order.insert(dim % (rank + 1), None)
        return order
    if kind == "getitem":
        taken = _sliced_dims(node.args[1], rank)
        return None if taken is None else [d for d, _ in taken]
    result_shape, other = shape(node), shape(source)  # a view or reshape
    long = [d for d, n in enumerate(other) if n != 1]
    if [n for n in result_shape if n != 1] != [other[d] for d in long]:
        return None
    left = iter(long)
    return [next(left) if n != 1 else None for n in result_shape]


def starts_of(node: fx.Node) -> dict[int, int]:
    """Returns at which position of dimensions of its source a moved tensor begins, where that is not their first."""
    taken = _sliced_dims(node.args[1], len(shape(node.args[0]))) if name(node) == "getitem" else None
    return {d: start for d, start in taken or () if d is not None and start}


def parts_of(index: object) -> tuple[Any, ...]:
    """Returns the items of an index `x[index]`."""
    return index if isinstance(index, tuple) else (index,)


def _sliced_dims(index: object, rank: int) -> list[tuple[int | None, int]] | None:
    """Returns for each dimension of `x[index]` the one of x that it is, None for a new one, and where in it it begins; None if
    something but slices without steps is taken."""
    parts = parts_of(index)
    if any(part is not None and part is not Ellipsis and _start(part) is None for part in parts):
        return None
    named = sum(isinstance(part, slice) for part in parts)
    dims: list[tuple[int | None, int]] = []
    next_dim = 0
    for part in parts:
        if part is None:
            dims.append((None, 0))
        elif part is Ellipsis:
            dims += [(d, 0) for d in range(next_dim, next_dim + rank - named)]
            next_dim += rank - named
        else:
            dims.append((next_dim, _start(part) or 0))
            next_dim += 1
    return [*dims, *((d, 0) for d in range(next_dim, rank))]


def _start(part: object) -> int | None:
    """Returns where a slice without steps begins; None for anything else, and where that is counted from the end or not known."""
    start = (part.start or 0) if isinstance(part, slice) and part.step in (None, 1) else None
    return start if isinstance(start, int) and start >= 0 else None
