"""Removes effect tokens from an FX graph. torch threads tokens through ops with side effects to keep their order; the order of
Lamina's external calls keeps it here."""

import operator
from typing import Any

import torch
from torch import fx

WITH_EFFECTS = getattr(torch.ops.higher_order, "with_effects", None)


def drop_tokens(graph: fx.Graph, outputs: list[Any]) -> list[Any]:
    """Replaces, in place, every `with_effects(token, op, *args)` by a plain call of op. Returns the updated outputs. Token
    arguments and token outputs become None."""
    calls = [n for n in graph.nodes if n.op == "call_function" and WITH_EFFECTS is not None and n.target is WITH_EFFECTS]
    tokens: set[fx.Node] = set()
    for node in calls:
        token, op, *args = node.args
        tokens.add(token)
        values = node.meta["val"][1:]
        with graph.inserting_before(node):
            call = graph.call_function(op, tuple(args), dict(node.kwargs))
        single = len(op._schema.returns) == 1
        call.meta = {**node.meta, "val": (values[0] if single else tuple(values)) if op._schema.returns else None}
        for user in list(node.users):
            index = user.args[1]
            if index == 0:
                tokens.add(user)
                continue
            if single:
                user.replace_all_uses_with(call)
                outputs = [call if o is user else o for o in outputs]
            else:
                user.args = (call, index - 1)
    outputs = [None if isinstance(o, fx.Node) and o in tokens else o for o in outputs]
    for node in reversed(calls):
        for user in [u for u in node.users if u.target is operator.getitem]:
            if not user.users:
                graph.erase_node(user)
        graph.erase_node(node)
    for token in tokens:
        if token.op == "placeholder":
            token.meta["val"] = None
    return outputs
