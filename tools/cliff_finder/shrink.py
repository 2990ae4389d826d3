"""Reduces a slow graph to the smallest one found that is still slow."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from .grammar import result_shape
from .graph import DrawnGraph, DrawnInput


def shrink(graph: DrawnGraph, slow: Callable[[DrawnGraph], bool], limit: int = 40) -> DrawnGraph:
    """Replaces the graph by the first smaller one that is still slow, repeatedly; measures at most `limit` graphs."""
    left = limit
    found = True
    while found and left:
        found = False
        for smaller in smaller_graphs(graph):
            if not left:
                break
            left -= 1
            if slow(smaller):
                graph, found = smaller, True
                break
    return graph


def smaller_graphs(graph: DrawnGraph) -> Iterator[DrawnGraph]:
    """Yields reductions of a graph.

    These are, in order: prefixes and suffixes of its nodes, the shortest first; the graph without one node; with contiguous inputs;
    and in inference mode.
    """
    count = len(graph.inputs)
    for half in _halves(len(graph.nodes)):
        yield replace(graph, nodes=graph.nodes[:half]).used()
        if (later := _from(graph, count + len(graph.nodes) - half)) is not None:
            yield later
    for i, node in enumerate(graph.nodes[:-1]):
        shorter = _without(graph, count + i, node.operands[0])
        if result_shape(shorter) is not None:
            yield shorter
    if any(given.layout != "contiguous" for given in graph.inputs):
        yield replace(graph, inputs=tuple(replace(given, layout="contiguous") for given in graph.inputs))
    if graph.mode != "inference":
        yield replace(graph, mode="inference")


def _halves(count: int) -> list[int]:
    """Returns numbers of nodes below `count`: half of it, then more by bisection."""
    kept, found = count // 2, []
    while 0 < kept < count:
        found.append(kept)
        kept += max(1, (count - kept) // 2)
    return found


def _from(graph: DrawnGraph, first: int) -> DrawnGraph | None:
    """Returns the graph of the nodes from `first` on, with earlier values that they read as inputs; None if one has no shape."""
    count = len(graph.inputs)
    kept = graph.nodes[first - count :]
    read = sorted({v for node in kept for v in node.operands if v < first})
    inputs = []
    for value in read:
        if value < count:
            inputs.append(graph.inputs[value])
            continue
        shape = result_shape(replace(graph, nodes=graph.nodes[: value - count + 1]).used())
        if shape is None:
            return None
        inputs.append(DrawnInput(shape, graph.dtype))
    new = {value: i for i, value in enumerate(read)} | {first + i: len(read) + i for i in range(len(kept))}
    return replace(graph, inputs=tuple(inputs), nodes=tuple(replace(n, operands=tuple(new[v] for v in n.operands)) for n in kept))


def _without(graph: DrawnGraph, value: int, instead: int) -> DrawnGraph:
    """Returns the graph with uses of `value` replaced by `instead`, without nodes that are unused then."""
    nodes = [replace(n, operands=tuple(instead if v == value else v for v in n.operands)) for n in graph.nodes]
    return replace(graph, nodes=tuple(nodes)).used()
