"""Regions of a traced graph that ran in another grad mode (`with torch.no_grad()`), which torch.export puts into graphs of their
own. Where no gradient is computed they are ordinary nodes."""

import operator
from typing import Any

from torch import fx
from torch._higher_order_ops.wrap import wrap_with_set_grad_enabled

from .interface import attribute


def inlined(gm: fx.GraphModule) -> fx.GraphModule:
    """Returns `gm` with the nodes of such regions in their place; `gm` itself where it has none. `gm` is left as it is."""
    if not any(node.target is wrap_with_set_grad_enabled for node in gm.graph.nodes):
        return gm
    graph = fx.Graph()
    mapping: dict[fx.Node, Any] = {}
    for node in gm.graph.nodes:
        if node.op == "output":
            made = graph.output(fx.map_arg(node.args[0], mapping.__getitem__))
            made.meta = dict(node.meta)
        else:
            mapping[node] = _copy(graph, gm, node, mapping, "")
    result = fx.GraphModule(gm, graph)
    result.graph.eliminate_dead_code()
    return result


def _copy(graph: fx.Graph, gm: fx.GraphModule, node: fx.Node, mapping: dict[fx.Node, Any], path: str) -> Any:
    """The node in the new graph, or the results of a region."""
    if node.target is wrap_with_set_grad_enabled:
        _, region, *operands = node.args
        return _region(graph, gm, f"{path}{region.target}", [mapping[o] if isinstance(o, fx.Node) else o for o in operands])
    if node.target is operator.getitem and isinstance(source := mapping[node.args[0]], list | tuple):
        return source[node.args[1]]
    made = graph.node_copy(node, mapping.__getitem__)
    if node.op == "get_attr":
        made.target = f"{path}{node.target}"
    return made


def _region(graph: fx.Graph, gm: fx.GraphModule, name: str, operands: list[Any]) -> list[Any]:
    inner = attribute(gm, name)
    placeholders = [node for node in inner.graph.nodes if node.op == "placeholder"]
    mapping: dict[fx.Node, Any] = dict(zip(placeholders, operands, strict=True))
    for node in inner.graph.nodes:
        if node.op == "output":
            returned = fx.map_arg(node.args[0], mapping.__getitem__)
            return list(returned) if isinstance(returned, list | tuple) else [returned]
        if node.op != "placeholder":
            mapping[node] = _copy(graph, gm, node, mapping, f"{name}.")
    raise AssertionError("a graph ends in its output")
