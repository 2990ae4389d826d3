"""Calls compiled forward and backward graphs through a torch.autograd.Function with as little Python as possible.

AOTAutograd's own Function, and the wrappers around it, support tensor subclasses, views of arguments and states of random
generators, and write to mutated arguments one by one. They take longer than the kernels of a small training step. By
AOTAutograd's metadata most graphs need none of this; for these Dynamo gets a `TrainingCall`. What a user can observe is the same:
saved tensors go through `save_for_backward` (version counters, hooks, errors for a second backward pass), gradients of gradients
raise, and mutated buffers have their new values and versions when the call returns.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from lamina.core.layout import Layout

from ..fx.sizes import exact_sizes, is_open
from .direct_call import Compiled, Marks, Run, Watched, is_autocasting, mark_sizes, marks_of


class WatchedTraining:
    """The compilers of forward and backward graphs that AOTAutograd is given."""

    def __init__(self, compiler: Run) -> None:
        self.forward, self.backward = Watched(compiler), Watched(compiler)
        self._autocast = is_autocasting()

    def direct(self, wrapped: Run, arguments: int) -> Run:
        """Returns a TrainingCall, or `wrapped`, AOTAutograd's result, where that is needed. A TrainingCall calls `wrapped` until
        the first backward pass has compiled the backward graph, then the graphs themselves, where the wrappers do nothing else."""
        return wrapped if self.forward.only() is None or _watched_by_others() else TrainingCall(wrapped, self, arguments)

    def function(self, arguments: int) -> tuple[type[torch.autograd.Function], "TrainingLayout"] | None:
        """Returns a Function of the two graphs; None if AOTAutograd's wrappers are needed."""
        forward, backward = self.forward.only(), self.backward.only()
        if forward is None or backward is None:
            return None
        try:
            layout = _layout(forward, backward.graph, arguments, self._autocast)
        except AttributeError:  # this version of torch has other metadata
            return None
        return None if layout is None else (_function(forward.run, backward.run, layout), layout)


@dataclass(frozen=True)
class TrainingLayout:
    """The layout of a graph's results and gradients.

    mutated     arguments that receive the first results as their new values
    returned    number of results before the tensors saved for backward: new values, then the caller's results
    constant    results, among those returned, that have no gradient
    sizes       number of the last results that are sizes, which backward takes first
    tangents    results whose gradients backward takes: number, and how it was compiled to find them in memory
    marks       results of symbolic sizes, numbered from the caller's first, with the dimensions that may change
    autocast    autocast was enabled when the graph was traced, so that calls of torch's ops must run without it
    """

    mutated: tuple[int, ...]
    returned: int
    constant: tuple[int, ...]
    sizes: int
    tangents: tuple[tuple[int, "GradientLayout"], ...]
    marks: Marks
    autocast: bool


@dataclass(frozen=True)
class GradientLayout:
    """The dimensions of a dense tensor from the outermost in memory to the innermost; its strides too, where these are no
    matter of the call."""

    order: tuple[int, ...]
    strides: tuple[int, ...] | None

    @staticmethod
    def of(value: Tensor) -> "GradientLayout | None":
        """Returns the layout of a fake tensor; None for one with symbolic sizes that is not dense."""
        if not is_open(value):
            return GradientLayout((), tuple(value.stride()))
        order = Layout.of(exact_sizes(value.shape), exact_sizes(value.stride())).order
        return None if order is None else GradientLayout(order, None)

    def strides_of(self, shape: torch.Size) -> tuple[int, ...]:
        """Returns the strides of a tensor of this shape."""
        if self.strides is not None:
            return self.strides
        strides, inner = [1] * len(shape), 1
        for d in reversed(self.order):
            strides[d] = inner
            inner *= max(shape[d], 1)
        return tuple(strides)


class TrainingCall:
    """Takes the arguments of a graph, and returns its results as part of autograd's graph."""

    def __init__(self, wrapped: Run, watched: WatchedTraining, arguments: int) -> None:
        self._wrapped = wrapped
        self._watched: WatchedTraining | None = watched
        self._arguments = arguments
        self._apply: Run | None = None
        self._groups: tuple[tuple[int, ...], ...] | None = None

    def __call__(self, *args: Any) -> Any:
        """Computes the graph, without AOTAutograd's wrappers where they do nothing."""
        if self._apply is None and not self._switched():
            return self._wrapped(*args)
        assert self._apply is not None
        if self._layout.autocast:
            with torch._C._DisableAutocast():
                results = self._apply(*args)
        else:
            results = self._apply(*args)
        mutated = self._layout.mutated
        if mutated:
            self._store(args, results)
            results = results[len(mutated) :]
        if self._layout.marks:
            mark_sizes(results, self._layout.marks)
        return results

    def _switched(self) -> bool:
        """Switches to the graphs themselves once both are compiled. Returns whether it did."""
        if self._watched is None or not self._watched.backward.compiled:
            return False
        pair = self._watched.function(self._arguments)
        self._watched = None
        if pair is None:
            return False
        function, self._layout = pair
        # Function.apply calls this after its checks for functorch. Dynamo runs no compiled code inside functorch's transforms.
        self._apply = super(torch.autograd.Function, function).apply  # type: ignore[misc]
        return True

    def _store(self, args: Sequence[Any], results: Sequence[Tensor]) -> None:
        """Copies new values into the arguments, all of one dtype and device at once."""
        if self._groups is None:
            self._groups = _groups([args[i] for i in self._layout.mutated])
        mutated = self._layout.mutated
        for group in self._groups:
            torch._foreach_copy_([args[mutated[i]] for i in group], [results[i] for i in group])


def _groups(targets: Sequence[Tensor]) -> tuple[tuple[int, ...], ...]:
    """Groups the numbers of tensors by dtype and device."""
    found: dict[Any, list[int]] = {}
    for i, target in enumerate(targets):
        found.setdefault((target.dtype, target.device), []).append(i)
    return tuple(map(tuple, found.values()))


def _function(run_forward: Run, run_backward: Run, layout: TrainingLayout) -> type[torch.autograd.Function]:
    """Returns the Function of a forward and a backward graph."""
    returned, constant, tangents, autocast = layout.returned, layout.constant, layout.tangents, layout.autocast
    until = -layout.sizes or None

    class CompiledFunction(torch.autograd.Function):
        """The graph as one node of autograd's graph."""

        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            """Runs the forward graph and saves what the backward graph reads."""
            results = run_forward(list(args))
            ctx.save_for_backward(*[t.detach() if t._is_view() else t for t in results[returned:until]])
            ctx.sizes = results[until:] if until else ()
            results = tuple(results[:returned])
            if constant:
                ctx.mark_non_differentiable(*[t for i in constant if isinstance(t := results[i], Tensor)])
                ctx._materialize_non_diff_grads = False
            return results

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            """Runs the backward graph. Raises RuntimeError inside functorch's transforms."""
            inputs = [*ctx.sizes, *ctx.saved_tensors]
            inputs += [_laid_out(gradients[i], wanted) for i, wanted in tangents]
            if torch._C._functorch.peek_interpreter_stack() is not None or any(map(_is_batched, gradients)):
                raise RuntimeError(
                    "a backward pass that lamina compiled cannot run inside vmap, grad or vjp, nor with is_grads_batched: put the "
                    "transform inside torch.compile, or leave this model uncompiled"
                )
            if torch.is_grad_enabled():
                return _Once.apply(lambda: _run(run_backward, inputs, autocast), torch.empty(0, requires_grad=True))
            return _run(run_backward, inputs, autocast)

    return CompiledFunction


def _is_batched(gradient: Any) -> bool:
    """Returns whether a gradient stands for several, as with vmap and is_grads_batched."""
    return isinstance(gradient, Tensor) and torch._C._functorch.is_legacy_batchedtensor(gradient)


def _run(run: Run, inputs: list[Any], autocast: bool) -> tuple[Any, ...]:
    if autocast:
        with torch._C._DisableAutocast():
            return tuple(run(inputs))
    return tuple(run(inputs))


class _Once(torch.autograd.Function):
    """Runs a backward graph so that its gradients have a history, which raises when they are differentiated."""

    @staticmethod
    def forward(ctx: Any, run: Callable[[], Any], _: Tensor) -> Any:
        """Runs the backward graph."""
        return run()

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        """Raises, as torch.compile does."""
        raise RuntimeError("torch.compile with aot_autograd does not currently support double backward, nor does lamina")


def _laid_out(gradient: Tensor, wanted: GradientLayout) -> Tensor:
    """Returns a gradient with the strides that the backward graph was compiled for."""
    if type(gradient) is not Tensor and not isinstance(gradient, torch.nn.Parameter):
        raise RuntimeError(
            f"a backward pass that lamina compiled for a plain tensor was given a {type(gradient).__name__} as the gradient of a "
            "result: convert it to a plain tensor first, or leave this model uncompiled"
        )
    strides = wanted.strides_of(gradient.shape)
    if gradient.stride() == strides:
        return gradient
    return torch.empty_strided(gradient.shape, strides, dtype=gradient.dtype, device=gradient.device).copy_(gradient)


def _watched_by_others() -> bool:
    """Returns whether hooks on saved tensors or compiled autograd need AOTAutograd's own Function."""
    return torch._dynamo.config.compiled_autograd or bool(torch._C._autograd._saved_tensors_hooks_is_enabled() and _hooks())


def _hooks() -> Any:
    return torch._C._autograd._top_saved_tensors_default_hooks(True)


def _layout(forward: Compiled, backward: fx.GraphModule, arguments: int, autocast: bool) -> TrainingLayout | None:
    """Returns the layout of a pair of graphs; None if it needs AOTAutograd's wrappers."""
    metadata = forward.metadata
    if not forward.takes(arguments):
        return None
    if metadata.num_tensors_saved_with_no_vc_check:
        return None
    if getattr(metadata, "num_opaque_objects_saved_for_bw", 0) or metadata.num_backward_tokens:
        return None
    if metadata.indices_of_inputs_that_requires_grad_with_mutations_in_bw:
        return None
    mutated = tuple(metadata.mutated_inp_runtime_indices)
    input_info = metadata.input_info
    if not all(
        input_info[i].mutates_data and not input_info[i].mutates_metadata and not input_info[i].requires_grad for i in mutated
    ):
        return None
    returned = list(backward.graph.output_node().args[0])
    if len(returned) != arguments or any(
        info.requires_grad and grad is None for info, grad in zip(input_info, returned, strict=True)
    ):
        return None
    first = len(mutated)
    constant = [*range(first), *(first + i for i, info in enumerate(metadata.output_info) if not info.requires_grad)]
    wanted = [
        first + i
        for i, info in enumerate(metadata.output_info)
        if issubclass(info.raw_type, Tensor) and getattr(info, "requires_grad_for_backward", info.requires_grad)
    ]
    tangent_values = [node.meta["val"] for node in backward.graph.find_nodes(op="placeholder")][-len(wanted) or None :]
    saved = len(backward.graph.find_nodes(op="placeholder")) - len(wanted)
    if saved != len(forward.graph.graph.output_node().args[0]) - metadata.num_forward_returns or len(tangent_values) != len(wanted):
        return None
    layouts = [GradientLayout.of(value) for value in tangent_values]
    tangents = [(i, gradient_layout) for i, gradient_layout in zip(wanted, layouts, strict=True) if gradient_layout is not None]
    if len(tangents) < len(tangent_values):
        return None
    sizes = metadata.num_symints_saved_for_bw
    return TrainingLayout(
        mutated, metadata.num_forward_returns, tuple(constant), sizes, tuple(tangents), marks_of(metadata), autocast
    )
