"""Implements the torch.compile backend: `torch.compile(model, backend="lamina")`."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx
from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput
from torch.utils.checkpoint import CheckpointPolicy

from lamina.core.errors import CompileError
from lamina.core.options import Options

from ..attention.recognize import recognize
from ..calls.direct_call import Watched, direct, mutated_arguments, unwrapped
from ..calls.direct_training import WatchedTraining
from ..calls.saved import release, take_strides, with_room
from ..capture.whole import interpolation_whole
from ..compiling.per_size import per_size
from ..compiling.specialized import at_sizes
from ..compiling.split import compile_graph
from ..complex_numbers.rewrite import as_real
from ..custom.substitute import with_kernels, with_registered
from ..decompositions.table import table
from ..fx.aliases import sharing, storage
from ..fx.random_bits import recompute_from_seeds
from ..fx.rewriter import copied
from ..fx.sizes import is_sized, silence_raw_sizes
from ..rewrites.branches import any_layout
from ..rewrites.instance_norms import open_instance_norms
from ..rewrites.numbers import keep_floats
from ..rewrites.updates import update_in_place
from .backend_error import passed_on
from .specialize import for_captured, specialization

_MODES: dict[str | None, dict[str, Any]] = {None: {}, "default": {}, "reduce-overhead": {"cuda_graphs": True}}


def backend(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Options | Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compiles a graph that Dynamo captured; torch.compile calls it. Raises CompileError for an unknown mode.

    options  as in `torch.compile(options=...)`: the fields of lamina.Options, and "target"
    mode     "default", or "reduce-overhead" for options with cuda_graphs (torch.compile takes a mode or options, not both)
    """
    with passed_on():
        if mode not in _MODES:
            raise CompileError(
                f"mode={mode!r} is not known to Lamina", remedy="leave mode out; see lamina.Options for what can be chosen"
            )
        given = dict(options) if isinstance(options, Mapping) else options
        target = given.pop("target", None) if isinstance(given, dict) else None
        chosen = for_captured(with_registered(Options.of(_MODES[mode] or given)), gm)
        if (sizes := specialization(gm)) is not None:
            example_inputs = [node.meta["example_value"] for node in gm.graph.find_nodes(op="placeholder")]
            keep_floats(gm)

        def trace(gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            """Compiles a graph of Dynamo's at these sizes."""
            return unwrapped(autograd(gm, inputs, options=chosen, target=target, compile=partial(_compile_at, sizes)))

        return per_size(gm, trace, example_inputs)


def _compile_at(sizes: Mapping[str, int] | None, gm: fx.GraphModule, inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """Compiles a graph for these values of its symbols, where some are given."""
    return compile_graph(at_sizes(gm, sizes) if sizes else gm, inputs, **kwargs)


def autograd(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Options,
    target: str | None = None,
    compile: Callable[..., Callable[..., Any]] = compile_graph,
) -> Callable[..., Any]:
    """Compiles `gm` through AOTAutograd: into forward and backward graphs where a gradient is needed, else into one graph.

    compile  what compiles each of them: compile_graph, or a function that also watches it
    """
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition

    with_grad = torch.is_grad_enabled()
    arguments = zip((node for node in gm.graph.nodes if node.op == "placeholder"), example_inputs, strict=False)
    recognize(gm, {node for node, value in arguments if with_grad and getattr(value, "requires_grad", False)}, target)
    if not with_grad:
        open_instance_norms(gm)

    def compiler(graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compiles the forward or backward graph, with the strides that AOTAutograd expects."""
        take_strides(graph, inputs)
        return compile(graph, inputs, options=options, target=target)

    def without_gradients(graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compiles a graph without gradients, with updates in place."""
        given = {"frozen": _weights()} if options.freeze_weights else {}
        updated = update_in_place(with_room(graph), *mutated_arguments())
        return compile(updated, inputs, options=options, target=target, **given)

    def partition(joint: fx.GraphModule, *args: Any, **kwargs: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Splits the joint graph into forward and backward."""
        if as_real(joint.graph) and is_sized(joint.graph):
            silence_raw_sizes()  # it leaves sizes among arguments, and AOTAutograd copies the graph when it pleases
        recompute_from_seeds(joint)
        _without_detach(joint)
        _keep_compared(joint)
        changed = _changed(joint)
        whole = copied(joint) if changed else joint
        results = kwargs["num_fwd_outputs"]
        forward, backward = min_cut_rematerialization_partition(joint, *args, compiler="inductor", **kwargs)
        if changed and _saves(forward, changed, results):
            forward, backward = default_partition(whole, *args, **kwargs)
        release(forward, backward, results)
        return forward, backward

    inference, training = Watched(without_gradients), WatchedTraining(compiler)
    through = aot_autograd(
        fw_compiler=training.forward,
        bw_compiler=training.backward,
        inference_compiler=inference,
        decompositions=with_kernels(table(), options.kernels, target),
        partition_fn=partition,
        keep_inference_input_mutations=False,
    )
    replay = not _overlap(example_inputs)
    with any_layout(), interpolation_whole(), torch._functorch.config.patch(view_replay_for_aliased_outputs=replay):
        compiled = through(gm, example_inputs)
        if training.backward.failure is not None:
            raise training.backward.failure  # with symbolic sizes, the backward graph is compiled at once
        return direct(inference, training.direct(compiled, len(example_inputs)), len(example_inputs))


def _without_detach(joint: fx.GraphModule) -> None:
    """Removes detach, which does nothing in a joint graph of both passes.

    The partitioner would save its result as that of an opaque call, where recomputing it from smaller tensors is nearly free (a
    log_softmax of half-precision logits).
    """
    for node in joint.graph.find_nodes(op="call_function", target=torch.ops.aten.detach.default):
        kept = {user for user in node.users if user.op == "output"}
        node.replace_all_uses_with(node.args[0], delete_user_cb=lambda user, kept=kept: user not in kept)
        if not kept:
            joint.graph.erase_node(node)


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


def _overlap(inputs: Sequence[Any]) -> bool:
    """Returns whether several inputs share memory; one tensor given twice is one input.

    Where the graph writes to such memory, AOTAutograd passes that memory in the inputs' place. An output that views an input must
    then be found by its strides, not by repeating the view on all of that memory.
    """
    return sharing(list({id(value): value for value in inputs}.values())) is not None


def _weights() -> set[int]:
    """Returns the arguments of the graph being compiled that are parameters or buffers and that it does not write."""
    context = torch._guards.TracingContext.try_get()
    found = None if context is None else context.fw_metadata
    if found is None:
        return set()
    written = {i for i, info in enumerate(found.input_info) if info.mutates_data}
    return set(found.static_input_indices or ()) - written


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
