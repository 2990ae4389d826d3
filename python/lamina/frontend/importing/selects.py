"""Broadcasts the values of a select to the shape of its result, if only the condition has that shape."""

import torch
from torch import fx

from ..fx.rewriter import insert
from ..fx.sizes import exact_sizes

aten = torch.ops.aten

_NUMBERS = (aten.full.default, aten.scalar_tensor.default)


def spread_chosen(graph: fx.Graph) -> None:
    """Expands the first operand of each such `where`, in place: torch-mlir replaces `where(c, x, x)` by `x`, whatever c's shape is,
    and may find only after other rewrites that operands are equal. Different numbers stay: they never are."""
    for node in graph.find_nodes(op="call_function", target=aten.where.self):
        _, chosen, other = node.args
        shape = node.meta["val"].shape
        if any(exact_sizes(x.meta["val"].shape) == exact_sizes(shape) for x in (chosen, other)) or _differ(chosen, other):
            continue
        whole = chosen.meta["val"].new_empty(shape)
        node.args = (node.args[0], insert(node, whole, aten.expand.default, chosen, list(shape)), other)


def _differ(a: fx.Node, b: fx.Node) -> bool:
    if a.target not in _NUMBERS or b.target not in _NUMBERS:
        return False
    return repr(a.args[-1]) != repr(b.args[-1])
