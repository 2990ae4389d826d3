"""Returns results with padded rows as strided views instead of compact copies.

Where a product's rows are padded for a library (decompositions/ops/library.py: a vocabulary of 50257 words), eager's result is the
first columns of a wider tensor. Copying them costs as much as writing them; so a result that is a view of such columns stays a
view of the wider tensor, with its strides, as in TorchInductor. Its rows are contiguous, but further apart.
"""

from typing import Any

import torch
from torch import Tensor, fx

from ..decompositions.ops.library import ALIGNED
from ..fx.aliases import storage
from ..fx.rewriter import insert

aten = torch.ops.aten

_PRODUCTS = frozenset({aten.mm.default, aten.addmm.default})
_FIRST = ((1, 0), (1, 0, 1))  # a slice of the first columns: dimension, start, and the step if it is given
_VIEWS = frozenset({aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.unsqueeze.default})


def leave_room(gm: fx.GraphModule) -> fx.GraphModule:
    """Returns `gm` with results that copy the first columns of a product replaced by views of the product, where they still share
    memory with the same other results. For graphs without gradients: gradients would have to arrive in the same strides."""
    graph = gm.graph
    end = next(node for node in graph.nodes if node.op == "output")
    results = [node for node in end.all_input_nodes if isinstance(node.meta.get("val"), Tensor)]
    found = {result: views for result in results if (views := _views_of_columns(result)) is not None}
    changed = {result: views for result, views in found.items() if _share_as_before(result, found, results)}
    for result, views in changed.items():
        end.replace_input_with(result, _again(views))
    if changed:
        graph.eliminate_dead_code()
        gm.recompile()
    return gm


def _share_as_before(result: fx.Node, found: dict[fx.Node, list[fx.Node]], results: list[fx.Node]) -> bool:
    """Whether all results that share memory with this one's copy or its product also become views of the product, through this
    copy. found: the views of each such result."""
    product = found[result][0].args[0]
    assert isinstance(product, fx.Node)
    copy, whole = storage(result.meta["val"]), storage(product.meta["val"])
    of_it = {node for node, (columns, *_) in found.items() if columns.args[0] is product}
    beside = [node for node in results if node in of_it or storage(node.meta["val"]) in (copy, whole)]
    return all(node in of_it and storage(node.meta["val"]) == copy for node in beside)


def _views_of_columns(result: fx.Node) -> list[fx.Node] | None:
    """The slice of a product's columns and the views, in order, that turn a copy of it into a result. None for other results, or
    where the views need the copy."""
    views: list[fx.Node] = []
    node = result
    while node.target in _VIEWS:
        views.append(node)
        node = node.args[0]
    columns = node.args[0] if node.target is aten.clone.default else None
    if not isinstance(columns, fx.Node) or columns.target is not aten.slice.Tensor:
        return None
    product, dim, first = columns.args[:3]
    if not isinstance(product, fx.Node) or product.target not in _PRODUCTS or (dim, first, *columns.args[4:]) not in _FIRST:
        return None
    wide, width = product.meta["val"].shape[-1], result.meta["val"].shape[-1]
    keeps_rows = all(view.meta["val"].shape[-1] == columns.meta["val"].shape[-1] for view in views)
    return [columns, *reversed(views)] if 0 < wide - width < ALIGNED and keeps_rows else None


def _again(views: list[fx.Node]) -> fx.Node:
    """Repeats the views, from the second on, on the first, as new nodes."""
    found, *rest = views
    for view in rest:
        target: Any = aten.unsqueeze.default if view.target is aten.unsqueeze.default else aten.view.default
        sizes = fx.map_arg(view.args[1:], lambda node: node.meta["val"])
        found = insert(view, target(found.meta["val"], *sizes), target, found, *view.args[1:])
    return found
