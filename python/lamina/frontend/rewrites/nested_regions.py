"""Inlines regions marked by `torch.compiler.nested_compile_region`, which Dynamo captures as one graph for all their calls.

torch compiles that graph once, and the calls between stay calls. Lamina fuses across them.
"""

import torch
from torch import fx


def inline_regions(gm: fx.GraphModule) -> None:
    """Replaces calls of regions by their ops, in a graph that Dynamo captured and in the graphs that it calls."""
    invoke = torch.ops.higher_order.invoke_subgraph
    for module in list(gm.modules()):
        if not isinstance(module, fx.GraphModule) or not module.graph.find_nodes(op="call_function", target=invoke):
            continue
        while calls := module.graph.find_nodes(op="call_function", target=invoke):
            for call in calls:
                _inline(module, call)
        module.recompile()


def _inline(gm: fx.GraphModule, call: fx.Node) -> None:
    """Inserts a region's ops in the place of a call, whose arguments are the region, its name and the operands."""
    named, _, *operands = call.args
    assert isinstance(named, fx.Node)
    body = getattr(gm, str(named.target))
    mapping = dict(zip(body.graph.find_nodes(op="placeholder"), operands, strict=True))
    with gm.graph.inserting_before(call):
        results = gm.graph.graph_copy(body.graph, mapping)  # type: ignore[arg-type]
    for node in body.graph.find_nodes(op="get_attr"):
        name = f"{named.target}_{node.target}".replace(".", "_")
        setattr(gm, name, getattr(body, str(node.target)))
        mapping[node].target = name  # type: ignore[union-attr]
    for user in list(call.users):  # each takes one of the results
        user.replace_all_uses_with(results[user.args[1]])  # type: ignore[index]
        gm.graph.erase_node(user)
    gm.graph.erase_node(call)
    if not named.users:
        gm.graph.erase_node(named)
