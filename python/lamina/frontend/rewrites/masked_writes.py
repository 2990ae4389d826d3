"""Rewrites writes at a mask as selections, if all elements that the mask selects get the same values, before gradients are
computed.

The gradient of `x[mask] = row`, as torch writes it, is `grad[mask].sum(0)`: as many rows as the mask selects. No graph has that
size ahead of a call, so Dynamo would break the graph at the write, or the sum would run eagerly.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from ..decompositions.ops.scatter import where_masked


def open_masked_writes(gm: fx.GraphModule) -> None:
    """Replaces writes at indices in a graph that Dynamo captured, and in the graphs that it calls."""
    for module in gm.modules():
        if not isinstance(module, fx.GraphModule):
            continue
        nodes = [node for node in module.graph.nodes if node.target in _WRITES]
        for node in nodes:
            node.op, node.target = "call_function", _WRITES[node.target]
        if nodes:
            module.recompile()


def _set(x: Any, index: Any, value: Any) -> None:
    indices = list(index) if isinstance(index, tuple) else [index]
    while indices and _takes_all(indices[-1]):
        indices.pop()
    written = _selection(x, [None if _takes_all(i) and i is not ... else i for i in indices], value)
    if written is None:
        x[index] = value
    else:
        x.copy_(written)


def _put_in_place(x: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False) -> Tensor:
    written = _selection(x, indices, values, accumulate)
    return x.index_put_(indices, values, accumulate) if written is None else x.copy_(written)  # type: ignore[arg-type]


def _put(x: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False) -> Tensor:
    written = _selection(x, indices, values, accumulate)
    return x.index_put(indices, values, accumulate) if written is None else written  # type: ignore[arg-type]


_WRITES: dict[Any, Callable[..., Any]] = {
    operator.setitem: _set,
    torch.index_put: _put,
    torch.index_put_: _put_in_place,
    "index_put": _put,
    "index_put_": _put_in_place,
}
"""The functions that replace masked writes, by the function or method that a node of Dynamo's graphs calls."""


def _takes_all(index: Any) -> bool:
    return index is ... or (isinstance(index, slice) and index == slice(None))


def _selection(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Tensor | None:
    """Returns `x` with the values written at a mask; None if that is not a selection, or torch raises an error."""
    given = isinstance(x, Tensor) and isinstance(values, Tensor) and all(i is None or isinstance(i, Tensor) for i in indices)
    if not given or not indices or x.dtype != values.dtype or not values.requires_grad:
        return None
    written = where_masked(x, indices, values, accumulate)
    return None if written is None or written.shape != x.shape else written
