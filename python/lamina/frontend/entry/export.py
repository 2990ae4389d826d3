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


def compile(
    model: Callable[..., Any],
    example_inputs: tuple[Any, ...] | list[Any] | dict[str, Any] | Tensor,
    *,
    target: str | None = None,
    options: Options | Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> CompiledModel:
    """Compiles a module or function for inputs like the given ones and returns a callable that takes such inputs.

    example_inputs  positional arguments as a tuple, or keyword arguments as a dict; tensors fix shape, dtype and device, all else
                    (numbers, strings, None) is part of what is compiled
    target          what to compile for: "cpu" (this machine), "cpu:znver4" or "nvvm:sm_90a"; by default what the tensors are on;
                    "null:TARGET" compiles for a target and runs nothing: calls return zeros
    options         `lamina.Options`, or a mapping with the same names
    dynamic_shapes  the sizes that calls may vary, as in torch.export.export: for each argument a dict or tuple of
                    torch.export.Dim, Dim.AUTO, Dim.DYNAMIC, Dim.STATIC or None. One compilation serves all sizes in range, but that
                    sizes of 0 and 1 are compiled separately

    What is returned stands for the model: it has the model's parameters, state, mode, hooks and attributes, and copies and pickles
    (a copy compiles again). Parameters and buffers are looked up at each call, so an optimizer's step is seen. Where gradients
    are asked for (grad mode, and a tensor that requires them) the call is differentiable.

    A change of a submodule's mode, hooks or children, of which weights are tied, of the grad mode, of autocast, of the strides of
    tensors or of which arguments are one tensor compiles a variant at the next call. All other Python state is constant: attributes
    of modules that are not parameters, buffers or submodules, global and enclosing variables keep the values that they had when a
    variant was traced. A tensor that forward assigns to an attribute is assigned at each call; a model whose forward changes other
    Python state, or that cannot be traced, raises CompileError with the line; a model that is not callable raises TypeError.
    """
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
                    raise TypeError(f"example_inputs as a dict are keyword arguments by name, but {name!r} is not a name")
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
