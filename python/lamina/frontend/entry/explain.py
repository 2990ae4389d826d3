"""Implements `lamina.explain`: compiles a model through the torch.compile entry point, and records the result."""

import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils._sympy.numbers import int_oo

from lamina.core.options import Options
from lamina.core.sizes import LEAST
from lamina.report.explanation import Explanation, Recompile

from ..capture.as_module import closed_over, signature_of
from ..capture.open_sizes import bounds, is_automatic
from ..custom.substitute import with_registered
from ..fx.destination import check_name
from .arguments import Arguments
from .at_sizes import at_sizes
from .explain_backend import ExplainBackend
from .export import split_inputs
from .model import CompiledModel, model_and_sizes


def explain(
    model: Callable[..., Any],
    example_inputs: tuple[Any, ...] | list[Any] | dict[str, Any] | Tensor,
    *,
    more: Sequence[Any] = (),
    target: str | None = None,
    options: Options | Mapping[str, Any] | None = None,
    training: bool = False,
    measure: bool = False,
    show: bool = True,
    dynamic_shapes: Any = None,
) -> Explanation:
    """Compiles the model, calls it once, prints what was made of it and returns that as data: every kernel with the ops in it,
    their source lines, bytes, operations and place under the roofline; fusion before and after; external calls with their
    reasons; the memory plan; time per pass; graph breaks, guards and recompiles.

    more      further inputs to call it with, to see what compiles again
    training  with gradients: forward and backward graphs
    measure   also time every kernel and call
    show      print it
    dynamic_shapes  the sizes that are symbols, as in lamina.compile; all for what torch.compile(dynamic=True) returned. The report
              then gives each size's range and where it is read, and sizes of kernels as expressions and at the example's sizes

    The model's state stays as it is. As with torch._dynamo.explain, functions compiled by torch.compile recompile at their next
    call.
    """
    if not callable(model):
        raise TypeError(f"model must be a module or a function, not {type(model).__name__}")
    check_name(target)
    recorder = ExplainBackend(with_registered(replace(Options.of(options), cache=False)), target)
    torch._dynamo.reset()
    earlier = _metrics()  # compared by identity below: torch keeps only the last few, so their count may not grow
    dynamic = _is_dynamic(model)
    if isinstance(model, CompiledModel):
        model, sizes = model_and_sizes(model)
        dynamic_shapes = sizes if dynamic_shapes is None else dynamic_shapes
    try:
        with _unchanged(model := _plain(model)):
            recorder.positional = [*signature.parameters] if (signature := signature_of(model)) is not None else []
            run = torch._dynamo.optimize(recorder, guard_export_fn=recorder.guard, dynamic=dynamic)(model)
            for inputs in (example_inputs, *more):
                _call(run, model, inputs, training, dynamic_shapes, recorder.declared)
        recompiles = tuple(_recompile(m) for m in _metrics() if m.recompile_reason and not any(m is e for e in earlier))
    finally:
        torch._dynamo.reset()
    explanation = Explanation(
        graphs=tuple(recorder.graphs(measure)),
        breaks=tuple(recorder.breaks),
        guards=tuple(recorder.guards),
        recompiles=recompiles,
        peaks=recorder.peaks(measure),
        forecast=functools.partial(at_sizes, recorder, functools.partial(_scope, model)),
    )
    if show:
        explanation.print()
    return explanation


def _plain(model: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the model or function that the user wrote, where a compiled one is given."""
    for name in ("_orig_mod", "_torchdynamo_orig_callable", "module"):
        inner = getattr(model, name, None)
        if callable(inner) and (not isinstance(model, nn.Module) or name == "_orig_mod"):
            return _plain(inner)
    return model


def _is_dynamic(model: Callable[..., Any]) -> bool | None:
    """Returns the argument `dynamic` that torch.compile was called with; None if it is unknown."""
    context = getattr(model, "dynamo_ctx", None)  # of a module; a function's configuration is made by one
    if context is None and (config := getattr(model, "get_compiler_config", None)) is not None:
        context = closed_over(config).get("self")
    return getattr(context, "_dynamic", None)


def _mark(model: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: Any) -> dict[str, Any]:
    """Tells Dynamo which dimensions of the inputs are symbols, and returns what is declared of them by place, "x, dimension 0".
    Sizes of 0 and 1 stay constants."""
    form = Arguments(signature_of(model), args, kwargs, dynamic_shapes)
    leaves = form.flatten(*form.bind(args, kwargs))
    for i, dims in form.checked(leaves).items():
        for d, dim in dims.items():
            low, high = bounds(dim)
            if is_automatic(dim):
                torch._dynamo.maybe_mark_dynamic(leaves[i], d)
            else:
                torch._dynamo.mark_dynamic(leaves[i], d, min=max(low, LEAST), max=int_oo if high is None else high)
    return {f"{name}, dimension {d}": dim for name, dims in form.open.dims.items() for d, dim in dims.items()}


def _scope(model: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the locals of the function that Dynamo captures."""
    signature = signature_of(model)
    given = {"args": args, "kwargs": kwargs, **(signature.bind(*args, **kwargs).arguments if signature else kwargs)}
    return {"self": model, **given}


def _call(
    run: Callable[..., Any], model: Callable[..., Any], inputs: Any, training: bool, dynamic_shapes: Any, declared: dict[str, Any]
) -> None:
    args, kwargs = pytree.tree_map_only(Tensor, _copied, split_inputs(inputs))
    if dynamic_shapes is not None:
        declared.update(_mark(model, args, kwargs, dynamic_shapes))
    with torch.set_grad_enabled(training):
        results = run(*args, **kwargs)
        if not training:
            return
        learned = [t for t in pytree.tree_leaves(results) if isinstance(t, Tensor) and t.requires_grad]
        loss = sum((t.real if t.is_complex() else t).sum() for t in learned)
        own = list(model.parameters()) if isinstance(model, nn.Module) else []
        leaves = [t for t in (*own, *pytree.tree_leaves((args, kwargs))) if isinstance(t, Tensor) and t.requires_grad]
        if isinstance(loss, Tensor) and leaves:
            torch.autograd.grad(loss, leaves, allow_unused=True)


def _copied(tensor: Tensor) -> Tensor:
    """Returns a copy of an input, with what Dynamo is told of its sizes (`mark_dynamic`, `mark_unbacked`)."""
    made = tensor.detach().clone().requires_grad_(tensor.requires_grad)
    marks = {name: value for name, value in vars(tensor).items() if name.startswith("_dynamo_") or name in _TOLD}
    vars(made).update(copy.deepcopy(marks))
    return made


_TOLD = ("_specialize_on", "_specialized_on", "_has_dynamo_dim_marking")


@contextmanager
def _unchanged(model: Callable[..., Any]) -> Iterator[None]:
    """Restores buffers and random number generators after its body."""
    buffers = [(b, b.clone()) for b in model.buffers()] if isinstance(model, nn.Module) else []
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, saved in buffers:
                    buffer.copy_(saved)


def _metrics() -> list[Any]:
    return list(torch._dynamo.utils.get_compilation_metrics())


def _recompile(metric: Any) -> Recompile:
    return Recompile(metric.co_name or "", f"{metric.co_filename}:{metric.co_firstlineno}", str(metric.recompile_reason))
