"""Rewrites unfold (windows of a dimension), which is a view in torch, as a gather of elements: torch-mlir's tensors have no memory.

Until here `unfold` stays whole, so that AOTAutograd, and what reads aliases and strides off the graph, see a view.
"""

import torch
from torch import Tensor, fx

from ..fx.rewriter import insert, replace
from ..fx.sizes import elements
from ..fx.support import COMPUTED

aten = torch.ops.aten


def rewrite_windows(graph: fx.Graph) -> None:
    """Replaces each `unfold`, in place, by an index of evenly spaced places. Of a number, and of what has no elements, it stays."""
    for node in graph.find_nodes(op="call_function", target=aten.unfold.default):
        value = node.meta["val"]
        if value.dtype in COMPUTED and node.args[0].meta["val"].dim() and elements(value) != 0:
            replace(node, _gathered(node, value))


def _gathered(node: fx.Node, value: Tensor) -> fx.Node:
    source, dim, size, step = node.args
    dim %= value.dim() - 1
    count = value.shape[dim]
    starts = _numbers(node, value, count * step, step)
    column = insert(node, value.new_empty([count, 1], dtype=torch.int64), aten.view.default, starts, [count, 1])
    whole = value.new_empty([count, size], dtype=torch.int64)
    places = insert(node, whole, aten.add.Tensor, column, _numbers(node, value, size, 1))
    beside = value.movedim(-1, dim + 1)  # in the same memory, so that aliases stay known
    windows = insert(node, beside, aten.index.Tensor, source, [*[None] * dim, places])
    order = [*range(dim + 1), *range(dim + 2, value.dim()), dim + 1]
    return insert(node, value, aten.permute.default, windows, order)


def _numbers(node: fx.Node, value: Tensor, end: int, step: int) -> fx.Node:
    number = {"dtype": torch.int64, "device": value.device}
    made = value.new_empty([end // step], dtype=torch.int64)
    return insert(node, made, aten.arange.start_step, 0, end, step, **number)
