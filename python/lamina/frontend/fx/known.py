"""Evaluates values in a captured graph that depend only on shapes, at compile time."""

from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils._python_dispatch import _disable_current_modes

from lamina.core.walks import reachable

from .aliases import storage
from .reading import is_repeatable, value, writes_to

_NODES = 256  # the most nodes that a value may depend on


def known_value(node: fx.Node, gm: fx.GraphModule, before: fx.Node | None = None) -> Tensor | None:
    """Returns the value of a node that depends on no argument of the graph, as of `before` (None: the end of the graph). None if
    it depends on one, or differs from call to call."""
    order = _dependencies(node, gm.graph, before)
    if order is None:
        return None
    values: dict[fx.Node, Any] = {}
    with _disable_current_modes(), torch.no_grad():
        for n in order:
            if n.op == "get_attr":
                held = attrgetter(str(n.target))(gm)
                values[n] = held.clone() if isinstance(held, Tensor) else held  # it may be written to
                continue
            args, kwargs = fx.map_arg((n.args, n.kwargs), values.__getitem__)
            target: Any = getattr(args[0], str(n.target)) if n.op == "call_method" else n.target
            values[n] = target(*(args[1:] if n.op == "call_method" else args), **kwargs)
    found = values[node]
    return found if isinstance(found, Tensor) else None


def _dependencies(node: fx.Node, graph: fx.Graph, before: fx.Node | None) -> list[fx.Node] | None:
    """Returns the nodes that a node depends on, in order, with all writes to them on the way."""
    needed: set[fx.Node] = set()
    if not _collect(node, needed):
        return None
    writers: list[tuple[fx.Node, set[int] | None]] = []
    for n in graph.nodes:
        if n is before:
            break
        memory = writes_to(n)
        if memory is None or memory:
            writers.append((n, memory))
    grows = True
    while grows and writers:
        memory_of = {storage(v) for v in map(value, needed) if v is not None}
        missing = [n for n, memory in writers if n not in needed and (memory is None or memory & memory_of)]
        grows = bool(missing)
        if not all(_collect(n, needed) for n in missing):
            return None
    return [n for n in graph.nodes if n in needed]


def _collect(node: fx.Node, needed: set[fx.Node]) -> bool:
    """Adds the nodes that a node depends on. Returns whether none of them is an argument or differs from call to call."""
    for n in reachable([node], lambda n: [arg for arg in n.all_input_nodes if arg not in needed]):
        if n.op not in ("call_function", "call_method", "get_attr") or len(needed) == _NODES or not is_repeatable(n):
            return False
        needed.add(n)
    return True
