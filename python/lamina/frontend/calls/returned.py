"""Makes results that are views of an argument the tensors that eager returns.

A program returns the argument itself where a result has the same elements in the same places. In eager only some ops do
(contiguous, dropout in evaluation); all others create another tensor (`x[:]`, expand, detach), with the gradient state of a view.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from ..fx.aliases import memory_source
from ..fx.sizes import typical_size

aten = torch.ops.aten

_DETACHED = (aten.detach.default, aten.detach_.default)


@dataclass(frozen=True)
class Returned:
    """A result that is another tensor over the memory of an argument.

    result    its number
    argument  the argument's
    detached  it has no part in gradients
    """

    result: int
    argument: int
    detached: bool

    def as_eager(self, result: Tensor, argument: Tensor) -> Tensor:
        """Returns the result as eager's tensor: a view of `argument`, with its gradient state, or detached."""
        if result.dtype != argument.dtype or result.is_conj() != argument.is_conj() or result.is_neg() != argument.is_neg():
            return result
        if self.detached:
            return argument.detach() if result is argument else result
        if result is not argument and not argument.requires_grad:
            return result
        return argument.as_strided(result.shape, result.stride(), result.storage_offset())


def returned_views(graph: fx.Graph) -> tuple[Returned, ...]:
    """Returns the results of a graph, as eager runs it, that view an argument and are not that argument."""
    arguments = {node: i for i, node in enumerate(graph.find_nodes(op="placeholder"))}
    views = []
    for i, output in enumerate(graph.output_node().args[0]):  # type: ignore[arg-type]
        if not isinstance(output, fx.Node) or not isinstance(output.meta.get("val"), Tensor):
            continue
        node, same, detached = output, True, False
        while node not in arguments and (source := memory_source(node)) is not None:
            same = same and _returns_argument(node, source)
            detached = detached or node.target in _DETACHED
            node = source
        if node in arguments and not same:
            views.append(Returned(i, arguments[node], detached))
    return tuple(views)


def _returns_argument(node: fx.Node, source: fx.Node) -> bool:
    """Returns whether eager's op returns the tensor that it is given: found by running it on meta tensors."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    if node.target._schema.is_mutable:
        return True
    tensors = {n: _on_meta(n) for n in node.all_input_nodes}
    with torch.no_grad():
        made = node.target(*fx.map_arg(node.args, tensors.__getitem__), **fx.map_arg(node.kwargs, tensors.__getitem__))
    return made is tensors[source]


def _on_meta(node: fx.Node) -> Any:
    """Returns a node's value at the sizes of the trace: a tensor without data, or a number."""
    value = node.meta.get("val")
    if not isinstance(value, Tensor):
        return _hint(value)
    shape, strides = map(_hint, value.shape), map(_hint, value.stride())
    return torch.empty_strided(tuple(shape), tuple(strides), dtype=value.dtype, device="meta")


def _hint(value: Any) -> Any:
    """Returns the value of a symbolic size in the call that was traced: which tensor an op returns does not depend on it."""
    return typical_size(value) if isinstance(value, torch.SymInt) else value
