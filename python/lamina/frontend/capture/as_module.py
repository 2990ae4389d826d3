"""Wraps functions as modules, and resolves modules that stand for others."""

import inspect
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import nn


class StandIn(nn.Module):
    """A module that stands for another one, `module`, and shares its parameters, buffers, children, hooks and mode."""

    module: nn.Module


def as_module(model: Callable[..., Any]) -> nn.Module:
    """Returns the module to trace for a module or a function."""
    return original(model) if isinstance(model, nn.Module) else FunctionModule(model)


def original(module: nn.Module) -> nn.Module:
    """Returns the module that another one stands for, or the module itself."""
    while isinstance(module, StandIn):
        module = module.module
    return module


class FunctionModule(nn.Module):
    """A function as a module. Modules that it is bound to or closes over are its children."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.__dict__["function"] = _named_forward(function)
        owners = [getattr(function, "__self__", None), *closed_over(function).values()]
        for i, owner in enumerate(owners):
            if isinstance(owner, nn.Module):
                self.add_module(f"closure_{i}", original(owner))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function."""
        return self.__dict__["function"](*args, **kwargs)


class Holder(nn.Module):
    """Wraps a model together with foreign modules that its forward uses."""

    def __init__(self, model: nn.Module, others: Sequence[nn.Module]) -> None:
        super().__init__()
        self.model = model
        self.others = nn.ModuleList(others)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the model."""
        return self.model(*args, **kwargs)


def closed_over(function: Callable[..., Any]) -> dict[str, Any]:
    """Returns the variables of enclosing functions that a Python function reads, by name; none for other callables."""
    plain = getattr(function, "__func__", function)
    if not isinstance(plain, types.FunctionType):
        return {}
    return dict(_filled(zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True)))


def _filled(cells: Any) -> Iterator[tuple[str, Any]]:
    for name, cell in cells:
        try:
            yield name, cell.cell_contents
        except ValueError:  # a variable that is not assigned yet
            continue


def _named_forward(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the same function named "forward": by that name torch.export finds the model's frames in a stack trace."""
    plain = getattr(function, "__func__", function)
    if not isinstance(plain, types.FunctionType):
        return function
    code = plain.__code__.replace(co_name="forward")
    renamed = types.FunctionType(code, plain.__globals__, plain.__name__, plain.__defaults__, plain.__closure__)
    renamed.__kwdefaults__ = plain.__kwdefaults__
    return renamed if plain is function else types.MethodType(renamed, function.__self__)  # type: ignore[attr-defined]


def signature_of(model: Callable[..., Any]) -> inspect.Signature | None:
    """Returns the signature of a module's forward or of a function; None if Python knows none."""
    try:
        return inspect.signature(model.forward if isinstance(model, nn.Module) else model)
    except (TypeError, ValueError):
        return None
