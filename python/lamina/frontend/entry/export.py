"""Implements `lamina.compile`, which compiles a model ahead of its calls."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, fx

from lamina.core.options import Options

from ..capture.as_module import as_module, signature_of
from ..capture.trace import inference, trace
from ..custom.substitute import with_kernels, with_registered
from ..decompositions.table import table
from ..fx.destination import check_name
from .arguments import Arguments
from .model import CompiledModel


def compile_model(
    model: Callable[..., Any],
    example_inputs: tuple[Any, ...] | list[Any] | dict[str, Any] | Tensor,
    *,
    target: str | None = None,
    options: Options | Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> CompiledModel:
    """Compiles a model for inputs like the example's: see lamina.compile. Raises TypeError for a model that is not callable."""
    if not callable(model):
        raise TypeError(f"model must be a module or a function, not {type(model).__name__}")
    args, kwargs = split_inputs(example_inputs)
    check_name(target)
    chosen = with_registered(Options.of(options))
    return CompiledModel(model, args, kwargs, options=chosen, target=target, dynamic_shapes=dynamic_shapes)


def split_inputs(example_inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns example inputs as (positional, keyword) arguments. Raises TypeError for other types."""
    match example_inputs:
        case Tensor():
            return (example_inputs,), {}
        case tuple() | list():
            return tuple(example_inputs), {}
        case dict():
            for name in example_inputs:
                if not isinstance(name, str):
                    raise TypeError(f"example_inputs as a dict are keyword arguments by name, but {name!r} is no name")
            return (), dict(example_inputs)
    given = type(example_inputs).__name__
    raise TypeError(f"example_inputs must be a tuple of positional arguments or a dict of keyword arguments, not {given}")


def inference_graph(
    model: Callable[..., Any],
    example_inputs: Any,
    options: Options | None = None,
    target: str | None = None,
    dynamic_shapes: Any = None,
) -> fx.GraphModule:
    """Returns the functional aten graph of a model without gradients, as every later stage sees it."""
    args, kwargs = split_inputs(example_inputs)
    open_dims = {}
    if dynamic_shapes is not None:
        form = Arguments(signature_of(model), args, kwargs, dynamic_shapes)
        args, kwargs = form.bind(args, kwargs)
        open_dims = form.checked(form.flatten(args, kwargs))
    with torch.no_grad():
        kernels = options.kernels if options is not None else ()
        return inference(trace(as_module(model), args, kwargs, open_dims), with_kernels(table(), kernels, target), target).gm
