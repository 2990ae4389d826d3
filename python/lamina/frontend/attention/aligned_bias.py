"""Pads the bias of torch's memory-efficient attention on a GPU, whose kernel needs rows that begin at multiples of 16 bytes.

torch pads a bias before it expands it over batch and heads. A compiled graph materializes the expanded bias in rows without gaps,
so the padding has to come after the expansion.
"""

from typing import Any

import torch
from torch import Tensor, fx

aten = torch.ops.aten

ROW = 8
"""Elements that a row is padded to a multiple of: 16 bytes in half types."""

_BIAS = {
    aten._scaled_dot_product_efficient_attention.default: 3,
    aten._scaled_dot_product_efficient_attention_backward.default: 4,
}


def align(graph: fx.Graph) -> None:
    """Pads, in place, every bias that a kernel computes, and passes attention a slice of the padded tensor."""
    for node in [n for n in graph.nodes if n.op == "call_function" and n.target in _BIAS]:
        place = _BIAS[node.target]
        bias = node.args[place] if len(node.args) > place else None
        if isinstance(bias, fx.Node) and not _is_aligned(bias):
            node.update_arg(place, _padded(graph, node, bias))


def _is_aligned(bias: fx.Node) -> bool:
    """Whether a bias needs no padding: its rows are a multiple of ROW long, the caller gives it, or it is a slice of a padded
    one."""
    if bias.meta["val"].shape[-1] % ROW == 0 or bias.op == "placeholder":
        return True
    source = bias.args[0] if bias.target is aten.slice.Tensor else None
    return isinstance(source, fx.Node) and source.target is aten.constant_pad_nd.default


def _padded(graph: fx.Graph, user: fx.Node, bias: fx.Node) -> fx.Node:
    value: Tensor = bias.meta["val"]
    columns = value.shape[-1]
    wide = value.new_empty((*value.shape[:-1], columns + -columns % ROW))
    with graph.inserting_before(user):
        padded = _call(graph, user, wide, aten.constant_pad_nd.default, bias, [0, -columns % ROW])
        return _call(graph, user, wide[..., :columns], aten.slice.Tensor, padded, value.dim() - 1, 0, columns)


def _call(graph: fx.Graph, like: fx.Node, value: Tensor, target: Any, *args: Any) -> fx.Node:
    made = graph.call_function(target, args)
    made.meta = {**{key: held for key, held in like.meta.items() if key != "tensor_meta"}, "val": value}
    return made
