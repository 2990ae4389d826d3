"""Splits the joint graph of AOTAutograd into forward and backward graphs: decides what is saved, and what backward recomputes."""

from typing import Any

import torch
from torch import Tensor, fx
from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput
from torch.utils.checkpoint import CheckpointPolicy

from ..calls.saved import release
from ..complex_numbers.rewrite import as_real
from ..fx.aliases import storage
from ..fx.random_bits import recompute_from_seeds
from ..fx.rewriter import copied
from ..fx.sizes import is_sized, silence_raw_sizes


def partition(joint: fx.GraphModule, *args: Any, **kwargs: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Returns the forward and the backward graph of a joint one, as AOTAutograd's `partition_fn`. Changes the joint graph."""
    from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition

    if as_real(joint.graph) and is_sized(joint.graph):
        silence_raw_sizes()  # it leaves sizes among arguments, and AOTAutograd copies the graph when it pleases
    recompute_from_seeds(joint)
    _without_detach(joint)
    _view_again(joint)
    _keep_compared(joint)
    changed = _changed(joint)
    whole = copied(joint) if changed else joint
    results = kwargs["num_fwd_outputs"]
    forward, backward = min_cut_rematerialization_partition(joint, *args, compiler="inductor", **kwargs)
    if changed and _saves(forward, changed, results):
        forward, backward = default_partition(whole, *args, **kwargs)
    _save_narrow(forward, backward, results)
    release(forward, backward, results)
    return forward, backward


def _without_detach(joint: fx.GraphModule) -> None:
    """Removes detach, which does nothing in a joint graph of both passes.

    The partitioner would save its result as that of an opaque call, where recomputing it from smaller tensors is nearly free (a
    log_softmax of half-precision logits).
    """
    for node in joint.graph.find_nodes(op="call_function", target=torch.ops.aten.detach.default):
        outputs = {user for user in node.users if user.op == "output"}
        node.replace_all_uses_with(node.args[0], delete_user_cb=lambda user, kept=outputs: user not in kept)
        if not outputs:
            joint.graph.erase_node(node)


def _view_again(joint: fx.GraphModule) -> None:
    """Recomputes windows of a dimension, a view that the partitioner does not know: saved, each element would be in several."""
    for node in joint.graph.find_nodes(op="call_function", target=torch.ops.aten.unfold.default):
        node.meta.setdefault("recompute", CheckpointPolicy.PREFER_RECOMPUTE)


def _keep_compared(joint: fx.GraphModule) -> None:
    """Saves for the backward pass what it compares for equality, such as a maximum and the elements that may equal it.

    If another kernel recomputed them in another order, with other roundings, none might be equal.
    """
    aten = torch.ops.aten
    same = (aten.view.default, aten.expand.default, aten.unsqueeze.default, aten.squeeze.dims, aten._to_copy.default)
    for node in joint.graph.nodes:
        if node.target not in (aten.eq.Tensor, aten.ne.Tensor) or node.meta.get("partitioner_tag") != "is_backward":
            continue
        for operand in node.args[:2]:
            while operand.target in same:
                operand = operand.args[0]
            if operand.op == "call_function" and operand.meta["val"].is_floating_point():
                operand.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def _save_narrow(forward: fx.GraphModule, backward: fx.GraphModule, results: int) -> None:
    """Saves what was widened from a narrower float as it was before: the partitioner may save the copy in f32, as it is nearer to
    its users in backward, which then cast it again."""
    end = forward.graph.output_node()
    returned = list(end.args[0])
    saved_inputs = {node.name: node for node in backward.graph.find_nodes(op="placeholder")}
    first = next((node for node in backward.graph.nodes if node.op != "placeholder"), None)
    saved = returned[:results]
    for node in returned[results:]:
        source = _widened(node)
        wide = saved_inputs.get(node.name) if source is not None else None
        if source is None or wide is None:
            saved.append(node)
            continue
        if source.name not in saved_inputs:
            saved.append(source)
            with backward.graph.inserting_before(wide):
                saved_inputs[source.name] = backward.graph.placeholder(source.name)
                saved_inputs[source.name].meta = dict(source.meta)
        with backward.graph.inserting_before(first):
            again = backward.graph.call_function(node.target, (saved_inputs[source.name], *node.args[1:]), node.kwargs)
            again.meta = dict(wide.meta)
        wide.replace_all_uses_with(again)
        backward.graph.erase_node(wide)
    if saved != returned:
        end.args = (tuple(saved) if isinstance(end.args[0], tuple) else saved,)
        forward.graph.eliminate_dead_code()
        forward.recompile()
        backward.recompile()


def _widened(node: Any) -> fx.Node | None:
    """Returns the tensor of narrower floats that a node widens, and does nothing else with; None for another node."""
    if not isinstance(node, fx.Node) or node.target is not torch.ops.aten._to_copy.default or set(node.kwargs) != {"dtype"}:
        return None
    source, made = node.args[0], node.meta["val"]
    assert isinstance(source, fx.Node)
    before = source.meta["val"].dtype
    return source if before.is_floating_point and made.is_floating_point() and before.itemsize < made.dtype.itemsize else None


def _changed(joint: fx.GraphModule) -> set[str]:
    """Returns by name the arguments of a joint graph whose new contents it returns."""
    results = joint.graph.output_node().meta.get("desc") or ()
    changed = [result.mutated_input for result in results if isinstance(result, InputMutationAOTOutput)]
    return {node.name for node in joint.graph.nodes if node.op == "placeholder" and node.meta.get("desc") in changed}


def _saves(forward: fx.GraphModule, changed: set[str], results: int) -> bool:
    """Returns whether a forward graph saves an argument that is changed after it, in order to recompute from it in backward."""
    memory = {storage(n.meta["val"]) for n in forward.graph.nodes if n.op == "placeholder" and n.name in changed}
    kept = [node.meta.get("val") for node in forward.graph.output_node().args[0][results:] if isinstance(node, fx.Node)]
    return any(isinstance(value, Tensor) and storage(value) in memory for value in kept)
