"""Calls compiled graphs without AOTAutograd's wrappers, where these would do nothing.

AOTAutograd returns a graph without gradients inside wrappers in Python that replay views, write new values back to inputs, unwrap
subclasses and the like, and take longer than a small graph's kernels. By AOTAutograd's metadata most graphs need none of this; for
these Dynamo gets the result of Lamina's compiler directly.

The wrappers also turn gradients off (native code does so itself, and creates tensors without a gradient), disable autocast where it
was enabled at compile time, look at the first call for custom ops whose results alias their arguments, and record an event of their
own in profiles.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

Run = Callable[..., Any]
Marks = tuple[tuple[int, set[int]], ...]


@dataclass(frozen=True)
class Compiled:
    """A compiled graph: its FX graph, the callable, and AOTAutograd's metadata at that time, None if its ops need something from
    AOTAutograd's wrappers."""

    graph: fx.GraphModule
    run: Run
    metadata: Any

    def takes(self, arguments: int) -> bool:
        """Returns whether AOTAutograd's wrappers pass `arguments` tensors on to the graph, and its results back, unchanged, apart
        from new values of mutated arguments."""
        return len(self.graph.graph.find_nodes(op="placeholder")) == arguments and passes_through(self.metadata, arguments)


class Watched:
    """A compiler that AOTAutograd is given. It keeps what it compiled."""

    def __init__(self, compiler: Run) -> None:
        self._compiler = compiler
        self.compiled: list[Compiled] = []
        self.failure: Exception | None = None

    def __call__(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> Run:
        """Compiles a graph for AOTAutograd."""
        context = torch._guards.TracingContext.try_get()
        plain = context is not None and not getattr(context, "fakify_first_call", False) and is_plain(graph)
        if context is not None and getattr(context.fw_metadata, "bw_donated_idxs", None):
            context.fw_metadata.bw_donated_idxs = []  # programs leave saved tensors as they are: a backward pass may run twice
        try:
            run = self._compiler(graph, inputs)
        except Exception as error:  # AOTAutograd keeps it until the graph is needed
            self.failure = error
            raise
        plain = plain and getattr(run, "_boxed_call", False)
        self.compiled.append(Compiled(graph, run, context.fw_metadata if context is not None and plain else None))
        return run

    def only(self) -> Compiled | None:
        """Returns the one graph that was compiled; None if there are others, or its ops need AOTAutograd's wrappers."""
        return self.compiled[0] if len(self.compiled) == 1 and self.compiled[0].metadata is not None else None


def mutated_arguments() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns for each of the first outputs of the graph that AOTAutograd compiles the number of the argument whose new value it
    is, and the numbers of the outputs in whose place AOTAutograd returns arguments or views of them."""
    from torch._functorch._aot_autograd.schemas import OutputType

    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    mutated = tuple(getattr(metadata, "mutated_inp_runtime_indices", ()))
    kinds, argument_kinds = (
        [info.output_type for info in getattr(metadata, "output_info", ())],
        (OutputType.alias_of_input, OutputType.is_input),
    )
    return mutated, tuple(len(mutated) + i for i, kind in enumerate(kinds) if kind in argument_kinds)


def direct(watched: Watched, wrapped: Run, arguments: int) -> Run:
    """Returns the compiler's own result for a graph without gradients where AOTAutograd's `wrapped` only passes `arguments` tensors
    on to it; else `wrapped`."""
    compiled = watched.only()
    if compiled is None or is_autocasting() or not compiled.takes(arguments):
        return wrapped
    if any(info.mutates_data or info.mutates_metadata for info in compiled.metadata.input_info):
        return wrapped
    marks = marks_of(compiled.metadata)
    return _marking(unwrapped(compiled.run), marks) if marks else compiled.run


def marks_of(metadata: Any) -> Marks:
    """Returns the results of a graph that have symbolic sizes, by number, with their dimensions that may change."""
    return tuple((i, info.dynamic_dims) for i, info in enumerate(metadata.output_info) if info.dynamic_dims)


def mark_sizes(results: Sequence[Any], marks: Marks) -> None:
    """Marks the sizes of results as ones that may change, as AOTAutograd does: a graph that takes them after a graph break is
    compiled for symbolic sizes at once."""
    for i, dims in marks:
        results[i]._dynamo_weak_dynamic_indices = dims | getattr(results[i], "_dynamo_weak_dynamic_indices", set())


def _marking(run: Run, marks: Marks) -> Run:
    """Returns `run` with its results marked."""

    def marked(*args: Any) -> Any:
        """Runs the graph and marks the dynamic dimensions of its results for Dynamo."""
        results = run(*args)
        mark_sizes(results, marks)
        return results

    marked._boxed_call = True  # type: ignore[attr-defined]
    return marked


def is_autocasting() -> bool:
    """Returns whether autocast is enabled for any kind of device."""
    return any(map(torch.is_autocast_enabled, ("cpu", "cuda")))


def unwrapped(run: Run) -> Run:
    """Returns the function that torch._dynamo.disable wraps. For a part of what a backend returns, as Dynamo wraps the whole."""
    return getattr(run, "_torchdynamo_orig_callable", run)


def is_plain(graph: fx.GraphModule) -> bool:
    """Returns whether a graph calls only ops of torch and Lamina: no user's custom op, whose results AOTAutograd checks, and no
    higher-order op."""
    for node in graph.graph.nodes:
        if node.op in ("placeholder", "output", "get_attr"):
            continue
        if getattr(node.target, "__module__", None) == "_operator":
            continue  # a part of a result, or arithmetic on sizes
        if not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace not in ("aten", "prims", "lamina"):
            return False
    return True


def passes_through(metadata: Any, arguments: int) -> bool:
    """Returns whether AOTAutograd's wrappers pass arguments and results on unchanged, apart from new values of mutated arguments.
    False if this version of torch has other metadata."""
    try:
        return (
            len(metadata.input_info) == arguments
            and not metadata.num_mutated_graph_handled_indices
            and not metadata.num_outputs_aliased
            and not metadata.num_intermediate_bases
            and metadata.grad_enabled_mutation is None
            and not metadata.tokens
            and not metadata.is_rng_op_functionalized
            and not metadata.num_graphsafe_rng_states
            and not getattr(metadata, "act_input_indices", ())  # asynchronous collectives: torch 2.13 has them
            and all(map(_is_plain_tensor, (*metadata.subclass_inp_meta, *metadata.subclass_fw_graph_out_meta)))
        )
    except AttributeError:
        return False


def _is_plain_tensor(meta: Any) -> bool:
    """Returns whether an argument or result is passed as itself: no subclass made of several tensors, no opaque object."""
    return hasattr(meta, "unwrapped_idx")
