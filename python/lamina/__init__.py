"""Lamina compiles PyTorch models through MLIR, layer by layer.

    compiled = lamina.compile(model, (example_input,))      # ahead of the call, by torch.export
    compiled = torch.compile(model, backend="lamina")       # at the call, by Dynamo; trains
    opt-driver model.mlir --pass-pipeline='...'             # any level, by hand

Importing the package imports neither torch nor MLIR: the first use of a function imports what implements it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .core.custom_kernel import CustomKernel
from .core.errors import CompileError
from .core.options import Options

if TYPE_CHECKING:
    from .frontend.custom.declare import custom_kernel, register_kernel
    from .frontend.entry.explain import explain
    from .frontend.entry.export import compile

__all__ = ["CompileError", "CustomKernel", "Options", "compile", "custom_kernel", "explain", "register_kernel"]

_FUNCTIONS = {
    "compile": "frontend.entry.export",
    "custom_kernel": "frontend.custom.declare",
    "explain": "frontend.entry.explain",
    "register_kernel": "frontend.custom.declare",
}


def __getattr__(name: str) -> Any:
    if name not in _FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_FUNCTIONS[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
