"""Drops a block mask's lists of blocks from calls of flex_attention, with the ops that compute them.

The lists say no more than the mask's function does, which eager reads alone. Without a mask torch makes lists by vmap, in the graph
of the call.
"""

import torch
from torch import fx
from torch._higher_order_ops.flex_attention import flex_attention
from torch._subclasses.fake_tensor import FakeTensor

from lamina.core.walks import reachable

from ..fx.reading import is_check, is_in_place, value
from ..fx.rewriter import Graft

aten = torch.ops.aten

_BLOCKS = 4
"""The number of the argument that holds the lists, with the mask's function at the end."""


def drop_block_lists(gm: fx.GraphModule) -> int:
    """Puts one empty list in their place, which torch asks for before gradients. Returns how many calls had some."""
    changed = 0
    for node in gm.graph.find_nodes(op="call_function", target=flex_attention):
        query, blocks = value(node.args[0]), node.args[_BLOCKS]
        lists = [i for i, b in enumerate(blocks[:-1]) if value(b) is not None]
        if not lists or not isinstance(query, FakeTensor):
            continue
        empty = Graft(node, (), query.fake_mode).call(aten.full.default, [1, 1, 1, 1], 0, dtype=torch.int32, device=query.device)
        node.update_arg(_BLOCKS, tuple(empty if i in lists else b for i, b in enumerate(blocks)))
        changed += 1
    if changed:
        _erase_unread(gm.graph)
        gm.recompile()
    return changed


def _regions(graph: fx.Graph) -> dict[fx.Node, list[fx.Node]]:
    """Returns for each node within a transform of torch.func all nodes of the outermost one, with those that enter and leave it."""
    region_of, depth, region = dict[fx.Node, list[fx.Node]](), 0, list[fx.Node]()
    for node in graph.nodes:
        if "increment_nesting" in str(node.target):
            region = region if depth else []
            depth += 1
        if depth:
            region.append(node)
            region_of[node] = region
        depth -= "decrement_nesting" in str(node.target)
    return region_of


def _erase_unread(graph: fx.Graph) -> None:
    """Erases what nothing reads. A transform stays or goes as a whole; it goes if it only writes to tensors of its own."""
    regions = _regions(graph)
    kept = [node for node in graph.nodes if _has_effect(node, regions.get(node, []))]
    live = set(reachable(kept, lambda node: [*node.all_input_nodes, *regions.get(node, ())]))
    for node in reversed(list(graph.nodes)):
        if node not in live:
            graph.erase_node(node)


def _has_effect(node: fx.Node, region: list[fx.Node]) -> bool:
    """Returns whether a node does more than its result says. region: the nodes of the transform that it is in, if there is one."""
    if not region:
        return node.op in ("placeholder", "output") or is_in_place(node) or (node.is_impure() and not is_check(node))
    written = node.args[0] if is_in_place(node) and node.args else None
    return isinstance(written, fx.Node) and written not in region
