"""Lamina compiles PyTorch models through MLIR, layer by layer.

    compiled = lamina.compile(model, (example_input,))      # ahead of the call, by torch.export
    compiled = torch.compile(model, backend="lamina")       # at the call, by Dynamo; trains
    opt-driver model.mlir --pass-pipeline='...'             # any level, by hand

Importing the package imports neither torch nor MLIR.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .core.errors import CompileError
from .core.options import Options

if TYPE_CHECKING:
    from torch import Tensor

    from .frontend.model import CompiledModel
    from .report.explanation import Explanation

__all__ = ["CompileError", "Options", "compile", "explain"]


def compile(
    model: Callable[..., Any],
    example_inputs: "tuple[Any, ...] | list[Any] | dict[str, Any] | Tensor",
    *,
    target: str | None = None,
    options: Options | Mapping[str, Any] | None = None,
) -> "CompiledModel":
    """Compiles a module or function for inputs like the given ones and returns a callable that takes such inputs.

    example_inputs  positional arguments as a tuple, or keyword arguments as a dict; tensors fix shape, dtype and device, all else
                    (numbers, strings, None) is part of what is compiled
    target          what to compile for: "cpu" (this machine), "cpu:znver4" or "nvvm:sm_90a"; by default what the tensors are on
    options         `lamina.Options`, or a mapping with the same names

    Parameters are used as they are at each call, so an optimiser's step is seen. Where gradients are asked for (grad mode, and a
    tensor that requires them) the call is differentiable. A model that cannot be traced raises CompileError with the line.
    """
    from .frontend.export import compile_model

    return compile_model(model, example_inputs, target=target, options=options)


def explain(
    model: Callable[..., Any],
    example_inputs: "tuple[Any, ...] | list[Any] | dict[str, Any] | Tensor",
    *,
    more: Sequence[Any] = (),
    target: str | None = None,
    options: Options | Mapping[str, Any] | None = None,
    training: bool = False,
    measure: bool = False,
    show: bool = True,
) -> "Explanation":
    """Compiles the model, calls it once, prints what was made of it and returns that as data: every kernel with the ops in it,
    their source lines, bytes, operations and place under the roofline; fusion before and after; external calls with their
    reasons; the memory plan; time per pass; graph breaks, guards and recompiles.

    more      further inputs to call it with, to see what compiles again
    training  with gradients: forward and backward graphs
    measure   also time every kernel and call
    show      print it
    """
    from .frontend.explain import explain as report

    return report(model, example_inputs, more=more, target=target, options=options, training=training, measure=measure, show=show)
