"""Lets tensors saved for backward keep the layout in which forward computes them.

Only the backward graph reads them, so they need not have eager's layout: a convolution with a channels-last result saves it without
a copy. AOTAutograd compiles the forward graph first. What that decides is noted in a dictionary that the metadata of both graphs
hold, and the backward graph is compiled for tensors of these strides. (AOTAutograd can hand strides on as well, but no symbolic
ones: TracingContext.report_output_strides.)
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx

from lamina.core.layout import Layout
from lamina.core.program import Program
from lamina.core.sizes import SizeLike, substituted
from lamina.core.walks import reachable

from ..fx.aliases import Outputs, ViewResult, storage
from ..fx.rewriter import insert
from ..fx.sizes import exact_sizes, restrided
from .interface import Interface

FREE = "lamina.free"
"""Key of a forward graph's output node: the names of results that may have any strides. (AOTAutograd may drop results in front of
them, the effect tokens, which changes numbers.)"""
DECIDED = "lamina.decided"
"""Likewise: maps these names to the strides in which the compiled graph makes the results; empty before. Key of an argument of the
backward graph, too: this dictionary, and the name in it."""
TRACED = "lamina.traced"
"""Key of such an argument: its value before, with eager's strides, by which the strides of the graph's results follow."""
ROOM = "lamina.room"
"""Likewise: the results may have room between their rows, as the columns of a padded product do (lamina-pad-products). For graphs
without gradients: gradients would have to arrive in the same strides."""
SHARES = "lamina.shares"
"""Likewise: maps such a result to another one whose memory it may lie in."""


def release(forward: fx.GraphModule, backward: fx.GraphModule, results: int) -> None:
    """Marks results of `forward` after the first `results` as free of eager's strides: those that `backward` takes and that share
    memory with no argument and no other result. Those that share memory only with each other, such as parts of one projection, get
    storages of their own, as nobody can observe that.

    A backward graph that returns such a tensor, or that reads by strides what is computed from it, depends on the strides that it
    was traced with.
    """
    returned, saved_inputs = _outputs(forward), _unstrided_arguments(backward)
    seen = _memory((*returned[:results], *forward.graph.find_nodes(op="placeholder")))
    by_memory: dict[int, list[int]] = {}
    for i, node in enumerate(returned[results:], results):
        if _is_tensor(node):
            by_memory.setdefault(storage(node.meta["val"]), []).append(i)
    free, shares = [], {}
    for memory, alike in by_memory.items():
        nodes = {returned[i] for i in alike}
        if memory in seen or len(nodes) < len(alike) or not all(node.name in saved_inputs for node in nodes):
            continue
        if len(alike) > 1:
            _give_own_storage(forward, alike)
            shares.update(dict.fromkeys(alike[1:], alike[0]))
        free += alike
    decided = dict[int, tuple[SizeLike, ...]]()
    names = [node.name if isinstance(node, fx.Node) else "" for node in _outputs(forward)]
    for i in free:
        saved_inputs[returned[i].name].meta[DECIDED] = (decided, names[i])
    shared = {names[i]: names[j] for i, j in shares.items()}
    forward.graph.output_node().meta.update({FREE: frozenset(names[i] for i in free), SHARES: shared, DECIDED: decided})


def _unstrided_arguments(backward: fx.GraphModule) -> dict[str, fx.Node]:
    """Returns, by name, the tensors among the arguments of a graph whose strides do not matter: no op reads by strides what is
    computed from them, and no result shares memory with them."""
    strided = [node for node in backward.graph.nodes if node.op == "call_function" and "as_strided" in str(node.target)]
    fixed = set(reachable(strided, lambda node: node.all_input_nodes))
    ends = _memory(_outputs(backward))
    arguments = [node for node in backward.graph.find_nodes(op="placeholder") if _is_tensor(node) and node not in fixed]
    return {node.name: node for node in arguments if storage(node.meta["val"]) not in ends}


def _memory(nodes: Iterable[Any]) -> set[int]:
    """Returns the storages of the tensors among the values of nodes."""
    return {storage(node.meta["val"]) for node in nodes if _is_tensor(node)}


def _give_own_storage(forward: fx.GraphModule, numbers: Sequence[int]) -> None:
    """Clones results that are views of one tensor, so that each has a storage of its own in the graph. Nothing is copied at run
    time."""
    end = forward.graph.output_node()
    returned = _outputs(forward)
    for i in numbers:
        node = returned[i]
        returned[i] = insert(end, node.meta["val"].clone(), torch.ops.aten.clone.default, node, like=node)
    end.args = (tuple(returned) if isinstance(end.args[0], tuple) else returned,)
    forward.recompile()


def free_results(gm: fx.GraphModule) -> tuple[int, ...]:
    """Returns the numbers of results that may have strides of their own, those that were decided or any."""
    free = gm.graph.output_node().meta.get(FREE, ())
    return tuple(i for i, node in enumerate(_outputs(gm)) if isinstance(node, fx.Node) and node.name in free)


def shared_results(gm: fx.GraphModule) -> dict[int, int]:
    """Returns, by number, the results that may lie in the memory of another one, with that one's number."""
    shares = gm.graph.output_node().meta.get(SHARES, {})
    number = {node.name: i for i, node in enumerate(_outputs(gm)) if isinstance(node, fx.Node)}
    return {number[name]: number[other] for name, other in shares.items()}


def decided_strides(gm: fx.GraphModule) -> dict[str, tuple[SizeLike, ...]]:
    """Returns by name the strides of results that were decided when the graph was compiled before. A program for some of its sizes
    makes the same: what the backward graph was compiled for."""
    return gm.graph.output_node().meta.get(DECIDED, {})  # type: ignore[no-any-return]


def decide_at(gm: fx.GraphModule, sizes: Mapping[str, int]) -> None:
    """Puts numbers in place of these symbols in the strides that were decided for a graph."""
    if decided := decided_strides(gm):
        numbers = {name: tuple(substituted(n, sizes) for n in strides) for name, strides in decided.items()}
        gm.graph.output_node().meta[DECIDED] = numbers


def set_decided_strides(graph: fx.Graph, decided: Mapping[str, tuple[SizeLike, ...]]) -> None:
    """Gives results of a graph the strides that were decided for them: those of a clone, which stands for no copy at run time."""
    end = graph.output_node()
    returned = list(end.args[0])
    for i, node in enumerate(returned):
        if isinstance(node, fx.Node) and node.name in decided:
            value = restrided(node.meta["val"], decided[node.name])
            returned[i] = insert(end, value, torch.ops.aten.clone.default, node, like=node)
    end.args = (tuple(returned),)


def with_room(gm: fx.GraphModule) -> fx.GraphModule:
    """Marks a graph whose results may have room between their rows, and returns it."""
    gm.graph.output_node().meta[ROOM] = True
    return gm


def roomy_results(gm: fx.GraphModule) -> range:
    """Returns the numbers of results that may have room between their rows."""
    return range(len(_outputs(gm)) if ROOM in gm.graph.output_node().meta else 0)


def own_results(results: Outputs, free: Sequence[int]) -> tuple[int, ...]:
    """Returns those of the outputs `free` that are a whole result of the program, in its shape, that no other output views."""
    outputs = results.outputs
    views = [output for output in outputs if isinstance(output, ViewResult) and output.source == "result"]
    uses = Counter(view.index for view in views)
    own = []
    for i in free:
        output = outputs[i]
        if not isinstance(output, ViewResult) or output.source != "result" or uses[output.index] > 1:
            continue
        if output.offset == 0 and exact_sizes(results.bases[output.index].meta["val"].shape) == output.shape:
            own.append(i)
    return tuple(own)


def with_strides(interface: Interface, program: Program, free: Sequence[int]) -> Interface:
    """Returns the interface of a graph whose outputs `free` have the strides of the results of `program`, where these differ."""
    outputs = list(interface.outputs)
    for i in free:
        view = outputs[i]
        assert isinstance(view, ViewResult)
        strides = program.outputs[view.index].strides
        if Layout.of(view.shape, view.strides).strides != strides:
            outputs[i] = replace(view, strides=strides)
    return replace(interface, outputs=tuple(outputs))


def note_free_strides(gm: fx.GraphModule, interface: Interface) -> None:
    """Notes the strides of the results of a compiled graph that might have any."""
    if decided := decided_strides(gm):
        return
    for i in free_results(gm):
        output = interface.outputs[i]
        if isinstance(output, ViewResult):
            decided[_outputs(gm)[i].name] = output.strides


def take_strides(gm: fx.GraphModule) -> None:
    """Sets the strides of a backward graph's arguments to those in which the compiled forward graph makes them."""
    for node in gm.graph.find_nodes(op="placeholder"):
        decided, name = node.meta.get(DECIDED, ({}, ""))
        if name in decided and exact_sizes(node.meta["val"].stride()) != decided[name]:
            node.meta |= {TRACED: node.meta["val"], "val": restrided(node.meta["val"], decided[name])}


def _outputs(gm: fx.GraphModule) -> list[Any]:
    returned = gm.graph.output_node().args[0]
    return list(returned) if isinstance(returned, list | tuple) else [returned]


def _is_tensor(node: Any) -> bool:
    """Returns whether a node's value is a tensor that has strides."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return isinstance(value, Tensor) and value.layout is torch.strided
