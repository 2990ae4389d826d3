"""Rewrites as_strided as ops on values: torch-mlir's tensors have no memory, and its own rewrite assumes that every view is
row-major."""

from collections.abc import Sequence

import torch
from torch import fx
from torch_mlir.extras.fx_as_strided import rewrite_as_strided

from ..fx.aliases import dense_order, memory_source
from ..fx.rewriter import insert, replace
from ..fx.sizes import elements, exact, exact_sizes

aten = torch.ops.aten


def rewrite_strided(graph: fx.Graph) -> None:
    """Replaces as_strided, in place, by a gather of the elements that it views, from the tensor that owns the memory, flattened.
    Where that tensor has gaps, torch-mlir finds the elements."""
    strided = [n for n in graph.nodes if n.target is aten.as_strided.default]
    for node in reversed(strided):  # a view of a view is then taken of the tensor behind both
        base = node.args[0]
        while (source := memory_source(base)) is not None:
            base = source
        order = dense_order(base.meta["val"])
        if order is not None and elements(base.meta["val"]) != 0:
            made = _Elements(node).of(base, order)
            made.meta["val"] = node.meta["val"]  # keeps the strides, which a result of the graph must have
            replace(node, made)
    values = {node.name: node.meta["val"] for node in strided}
    if rewrite_as_strided(graph):
        for node in graph.nodes:
            node.meta["val"] = values.get(node.name, node.meta.get("val"))


class _Elements:
    """Inserts nodes that compute the elements of `node`."""

    def __init__(self, node: fx.Node) -> None:
        self._node, self._value = node, node.meta["val"]

    def of(self, base: fx.Node, base_order: Sequence[int]) -> fx.Node:
        """Returns the node that reads the elements from `base`, whose dimensions lie in this order: a permutation where they are
        dense, else an index."""
        base_value, value = base.meta["val"], self._value
        row = self._view(self._permute(base, base_order), [base_value.numel()])
        start = value.storage_offset() - base_value.storage_offset()
        order = dense_order(value)
        if order is not None and elements(value) == elements(base_value) and exact(start) == 0:
            whole = self._view(row, [value.shape[d] for d in order])
            return self._permute(whole, [order.index(d) for d in range(value.dim())])
        return insert(self._node, value, aten.index.Tensor, row, [self._places(start)])

    def _places(self, start: int) -> fx.Node:
        """Returns the offset of each element from the start of the flattened base."""
        number = {"dtype": torch.int64, "device": self._value.device}
        whole = self._value.new_empty(self._value.shape, dtype=torch.int64)
        places = insert(self._node, whole, aten.full.default, list(whole.shape), start, **number)
        for d, (size, stride) in enumerate(zip(whole.shape, self._value.stride(), strict=True)):
            if exact(size) != 1 and exact(stride) != 0:
                along = whole.new_empty(size)
                steps = insert(self._node, along, aten.arange.start_step, 0, size * stride, stride, **number)
                steps = self._view(steps, [size] + [1] * (whole.dim() - 1 - d))
                places = insert(self._node, whole, aten.add.Tensor, places, steps)
        return places

    def _view(self, node: fx.Node, shape: list[int]) -> fx.Node:
        value = node.meta["val"]
        same = exact_sizes(value.shape) == exact_sizes(shape)
        return node if same else insert(self._node, value.new_empty(shape), aten.view.default, node, shape)

    def _permute(self, node: fx.Node, order: Sequence[int]) -> fx.Node:
        if list(order) == sorted(order):
            return node
        return insert(self._node, node.meta["val"].permute(order), aten.permute.default, node, list(order))
