"""Removes the effect tokens of an FX graph. torch threads tokens through ops with side effects to keep their order; the
order of Lamina's external calls keeps it here."""

import torch
from torch import fx

from .rewriter import insert, replace

WITH_EFFECTS = torch.ops.higher_order.with_effects


def drop_tokens(graph: fx.Graph) -> None:
    """Replaces, in place, every `with_effects(token, op, *args)` by a plain call of op. Token arguments and outputs become None."""
    for node in graph.find_nodes(op="call_function", target=WITH_EFFECTS):
        token, op, *args = node.args
        if isinstance(token, fx.Node) and token.op == "placeholder":
            token.meta["val"] = None
        values, single = node.meta["val"][1:], len(op._schema.returns) == 1
        call = insert(node, (values[0] if single else tuple(values)) if op._schema.returns else None, op, *args, **node.kwargs)
        for item in list(node.users):
            index = item.args[1]
            if index == 0:
                replace(item, None)
            elif single:
                replace(item, call)
            else:
                item.args = (call, index - 1)
        graph.erase_node(node)
