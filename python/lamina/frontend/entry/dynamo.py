"""Implements the torch.compile backend: `torch.compile(model, backend="lamina")`."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx

from lamina.core.errors import CompileError
from lamina.core.options import Options

from ..attention.recognize import recognize
from ..calls.direct_call import Watched, direct, mutated_arguments, unwrapped
from ..calls.direct_training import WatchedTraining
from ..calls.saved import take_strides, with_room
from ..capture.frames import in_one_chunk
from ..capture.whole import RESIZING, WRONG, kept_composite
from ..compiling.per_size import per_size
from ..compiling.specialized import specialized_graph
from ..compiling.split import compile_graph
from ..custom.substitute import with_kernels, with_registered
from ..decompositions.gradients import ABOVE_AUTOGRAD
from ..decompositions.table import table
from ..fx.aliases import sharing
from ..fx.reading import value
from ..rewrites.branches import any_layout
from ..rewrites.instance_norms import open_instance_norms
from ..rewrites.masked_writes import open_masked_writes
from ..rewrites.numbers import keep_floats
from ..rewrites.slice_writes import open_slice_writes
from ..rewrites.updates import update_in_place
from .backend_error import passed_on
from .partition import partition
from .specialize import for_captured, specialization

_MODES: dict[str | None, dict[str, Any]] = {None: {}, "default": {}, "reduce-overhead": {"cuda_graphs": True}}


@in_one_chunk
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
        fields = dict(options) if isinstance(options, Mapping) else options
        target = fields.pop("target", None) if isinstance(fields, dict) else None
        chosen = for_captured(with_registered(Options.of(_MODES[mode] or fields)), gm)
        if (sizes := specialization(gm)) is not None:
            example_inputs = [node.meta["example_value"] for node in gm.graph.find_nodes(op="placeholder")]
            keep_floats(gm)

        def trace(gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            """Compiles a graph of Dynamo's at these sizes."""
            return unwrapped(autograd(gm, inputs, options=chosen, target=target, compile=partial(_compile_at, sizes)))

        return per_size(gm, trace, example_inputs)


def _compile_at(sizes: Mapping[str, int] | None, gm: fx.GraphModule, **kwargs: Any) -> Callable[..., Any]:
    """Compiles a graph for these values of its symbols, where some are given."""
    return compile_graph(specialized_graph(gm, sizes) if sizes else gm, **kwargs)


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

    with_grad = torch.is_grad_enabled()
    arguments = zip((node for node in gm.graph.nodes if node.op == "placeholder"), example_inputs, strict=False)
    learned = {node for node, value in arguments if with_grad and getattr(value, "requires_grad", False)}
    recognize(gm, learned, target)
    if not learned:
        open_slice_writes(gm)
    if with_grad:
        open_masked_writes(gm)
    else:
        open_instance_norms(gm)

    def compiler(graph: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        """Compiles the forward or backward graph, whose arguments have the strides that the forward graph gives them."""
        take_strides(graph)
        return compile(graph, options=options, target=target)

    def without_gradients(graph: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        """Compiles a graph without gradients, with updates in place."""
        frozen = {"frozen": _weights()} if options.freeze_weights else {}
        updated = update_in_place(with_room(graph), *mutated_arguments())
        return compile(updated, options=options, target=target, **frozen)

    inference, training = Watched(without_gradients), WatchedTraining(compiler)
    through = aot_autograd(
        fw_compiler=training.forward,
        bw_compiler=training.backward,
        inference_compiler=inference,
        decompositions=with_kernels(table(), options.kernels, target),
        partition_fn=partition,
        keep_inference_input_mutations=False,
    )
    config = {"view_replay_for_aliased_outputs": not _overlap(example_inputs)}
    if any(map(_overlaps_itself, map(value, gm.graph.output_node().all_input_nodes))):
        config["guess_tangent_strides_as_outputs"] = False  # a gradient that is copied to such strides is another one
    with any_layout(), kept_composite(*RESIZING, *WRONG, *ABOVE_AUTOGRAD), torch._functorch.config.patch(config):
        compiled = through(gm, example_inputs)
        if training.backward.failure is not None:
            raise training.backward.failure  # with symbolic sizes, the backward graph is compiled at once
        return direct(inference, training.direct(compiled, len(example_inputs)), len(example_inputs))


def _overlap(inputs: Sequence[Any]) -> bool:
    """Returns whether several inputs share memory; one tensor given twice is one input.

    Where the graph writes to such memory, AOTAutograd passes that memory in the inputs' place. An output that views an input must
    then be found by its strides, not by repeating the view on all of that memory.
    """
    return sharing(list({id(value): value for value in inputs}.values())) is not None


def _overlaps_itself(tensor: Tensor | None) -> bool:
    """Returns whether elements of a tensor of known sizes may share memory, like the windows of an unfolded dimension."""
    if tensor is None or tensor.layout is not torch.strided:
        return False
    if any(not isinstance(n, int) for n in (*tensor.shape, *tensor.stride())):
        return False  # gradients of symbolic sizes are copied to rows or to channels last
    if tensor.numel() == 0:
        return False
    inner = 0
    for stride, size in sorted((s, n) for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1):
        if stride <= inner:
            return True
        inner += (size - 1) * stride
    return False


def _weights() -> set[int]:
    """Returns the arguments of the graph being compiled that are parameters or buffers and that it does not write."""
    context = torch._guards.TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    if metadata is None:
        return set()
    written = {i for i, info in enumerate(metadata.input_info) if info.mutates_data}
    return set(metadata.static_input_indices or ()) - written
