"""Lets the new values of arguments be written into the arguments themselves.

AOTAutograd turns `cache.index_copy_(2, at, keys)` into the result of a functional op, which copies the whole cache, and copies it
back after the call. Where nothing else reads the old value, the op is rewritten so that it writes into the argument. Where kernels
compute a new value from scratch, as an optimizer's step does, lamina-plan decides whether they may: the graph notes which of its
outputs are new values.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from ..fx.aliases import storage, tensors
from ..fx.sizes import exact_sizes

aten = torch.ops.aten

_IN_PLACE = {
    aten.index_put.default: aten.index_put_.default,
    aten._unsafe_index_put.default: aten.index_put_.default,
    aten.scatter.src: aten.scatter_.src,
    aten.scatter.value: aten.scatter_.value,
    aten.scatter.reduce: aten.scatter_.reduce,
    aten.scatter.value_reduce: aten.scatter_.value_reduce,
    aten.scatter_add.default: aten.scatter_add_.default,
    aten.scatter_reduce.two: aten.scatter_reduce_.two,
}
"""Ops that leave most of a tensor as it is, with their in-place variants: calls, or kernels where lamina-scatter converts them."""
_SAME = (aten.slice.Tensor, aten.expand.default, aten.alias.default, aten.clone.default, aten.view.default)
"""Ops whose result has the elements of their operand where it has its sizes and strides."""
UPDATES = "lamina.updates"
"""Key of a graph's output node: maps the numbers of outputs to those of the arguments whose new values they are."""


def update_in_place(gm: fx.GraphModule, mutated: Sequence[int | None], unused: Collection[int] = ()) -> fx.GraphModule:
    """Replaces, in place, functional ops that make the new value of an argument by their in-place variants, and notes which other
    outputs are new values. Returns the graph.

    mutated  for each of the first outputs, the number of the argument whose new value it is; None for one that is not a new value
    unused   outputs in whose place the caller returns arguments, or views of them: a second output that is a new value becomes the
             argument, so that it keeps no memory of its own
    """
    arguments, (outputs,) = gm.graph.find_nodes(op="placeholder"), gm.graph.output_node().args
    changed, new_values, again = False, dict[int, int](), dict[fx.Node, fx.Node]()
    for number, index in enumerate(mutated):
        if index is not None and index < len(arguments) and isinstance(outputs, list | tuple):
            others = [output for other, output in enumerate(outputs) if other != number and other not in unused]
            if _update(outputs[number], arguments[index], others):
                changed = True
            elif _is_alone(outputs[number], arguments[index], others):
                new_values[number] = index
                again[outputs[number]] = arguments[index]
    _replace_outputs(gm.graph.output_node(), again, unused)
    gm.graph.output_node().meta[UPDATES] = new_values
    if changed or again:
        gm.recompile()
    return gm


def _replace_outputs(end: fx.Node, new: Mapping[fx.Node, fx.Node], numbers: Collection[int]) -> None:
    """Replaces those of the outputs with these numbers that are keys of `new`."""
    (outputs,) = end.args
    if new and isinstance(outputs, list | tuple):
        end.args = ([new.get(output, output) if i in numbers else output for i, output in enumerate(outputs)],)


def _update(last: Any, argument: fx.Node, others: Sequence[Any]) -> bool:
    """Has an output, the new value of an argument, be written into it. others: the other outputs, which may not lie there. Returns
    whether it did."""
    chain = _chain(last, argument)
    updates = [node for node in chain if node.target in _IN_PLACE]
    memory = {storage(value) for node in chain for value in tensors(node)} | {storage(argument.meta["val"])} if updates else set()
    if not updates or any(storage(v) in memory for other in others if isinstance(other, fx.Node) for v in tensors(other)):
        return False
    old = argument
    for node in reversed(updates):
        node.target, node.args = _IN_PLACE[node.target], (old, *node.args[1:])
        node.meta["val"] = argument.meta["val"]
        old = node
    for node in chain[: chain.index(updates[0])]:
        node.replace_all_uses_with(updates[0])
    return True


def updates_of(gm: fx.GraphModule) -> dict[int, int]:
    """Returns the outputs of a graph that are new values of arguments, by number, with the numbers of these arguments."""
    return gm.graph.output_node().meta.get(UPDATES, {})  # type: ignore[no-any-return]


def _is_alone(output: Any, argument: fx.Node, others: Sequence[Any]) -> bool:
    """Returns whether an output has the layout of an argument and memory of its own, and no other output is in the memory of
    either."""
    if not isinstance(output, fx.Node) or not _has_layout_of(output, argument):
        return False
    memory = {storage(output.meta["val"]), storage(argument.meta["val"])}
    seen = {storage(v) for other in others if isinstance(other, fx.Node) for v in tensors(other)}
    return len(memory) == 2 and memory.isdisjoint(seen)


def _chain(last: Any, argument: fx.Node) -> list[fx.Node]:
    """Returns the ops, the last first, that make a new value of an argument from its old one and nothing else, where each that is
    updated is read by the update alone; none where there are others between."""
    chain: list[fx.Node] = []
    current, updates = last, False
    while current is not argument:
        if not isinstance(current, fx.Node) or current.target not in (*_IN_PLACE, *_SAME) or not _has_layout_of(current, argument):
            return []
        chain.append(current)
        updates |= current.target in _IN_PLACE
        before, *more = _inputs(current)
        if updates and (len(before.users) > 1 or before in more):
            return []
        current = before
    return chain


def _inputs(node: fx.Node) -> list[fx.Node]:
    """Returns the nodes among the arguments of a call, in order and with repetition."""
    found: list[fx.Node] = []
    fx.map_arg((node.args, node.kwargs), found.append)
    return found


def _has_layout_of(node: fx.Node, argument: fx.Node) -> bool:
    """Returns whether a node has the dtype, sizes and strides of an argument."""
    made, given = node.meta.get("val"), argument.meta.get("val")
    if not isinstance(made, Tensor) or not isinstance(given, Tensor) or made.dtype is not given.dtype:
        return False
    return all(exact_sizes(f(made)) == exact_sizes(f(given)) for f in (Tensor.size, Tensor.stride))
