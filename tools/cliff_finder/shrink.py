"""Reduces a slow graph to the smallest one that is still slow."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from .grammar import result_shape
from .graph import Graph, Input


def shrink(graph: Graph, slow: Callable[[Graph], bool], most: int = 40) -> Graph:
    """Takes the first smaller graph that is still slow, again and again; measures at most `most` of them."""
    left = most
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


def smaller_graphs(graph: Graph) -> Iterator[Graph]:
    """Yields graphs of fewer nodes, those of the fewest first: what ends earlier, begins later, or leaves one node out."""
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
    """Yields numbers of nodes that are fewer than all: half of them, then more."""
    kept, found = count // 2, []
    while 0 < kept < count:
        found.append(kept)
        kept += max(1, (count - kept) // 2)
    return found


def _from(graph: Graph, first: int) -> Graph | None:
    """Returns a graph whose nodes begin at `first`, with what they read from before as inputs; None where that has no shape."""
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
        inputs.append(Input(shape, graph.dtype))
    new = {value: i for i, value in enumerate(read)} | {first + i: len(read) + i for i in range(len(kept))}
    return replace(graph, inputs=tuple(inputs), nodes=tuple(replace(n, operands=tuple(new[v] for v in n.operands)) for n in kept))


def _without(graph: Graph, value: int, instead: int) -> Graph:
    """Returns the graph in which another value stands for a node's."""
    nodes = [replace(n, operands=tuple(instead if v == value else v for v in n.operands)) for n in graph.nodes]
    return replace(graph, nodes=tuple(nodes)).used()
