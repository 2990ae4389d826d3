"""Resolves the names in a program to torch operators and constants."""

from functools import cache
from typing import Any

import torch

from lamina.core.errors import CompileError
from lamina.core.program import Call

_CONSTANTS = (torch.dtype, torch.layout, torch.memory_format)


def overload(callee: str, where: tuple[str, ...]) -> Any:
    """Returns the operator overload named "namespace.packet.overload", such as "aten.addmm.default". Raises CompileError for an
    unknown one."""
    parts = callee.split(".")
    try:
        namespace, packet, name = parts
        return getattr(getattr(getattr(torch.ops, namespace), packet), name)
    except (ValueError, AttributeError) as error:
        raise CompileError(
            f"no operator {callee} in this torch {torch.__version__}",
            where=", ".join(where),
            remedy="import the package that registers it, or compile again with this torch",
        ) from error


def arguments_of(step: Call) -> dict[str, Any]:
    """Returns the arguments that a call gives, by their names in the operator's schema. Raises CompileError for an unknown one."""
    names = [argument.name for argument in overload(step.callee, step.where)._schema.arguments]
    return dict(zip(names, step.args, strict=False)) | dict(step.kwargs)


@cache
def out_variant(function: Any) -> tuple[Any, tuple[str, ...]] | None:
    """Returns the overload that takes the same arguments and writes its results in place, with the names of its out arguments; None
    if there is none."""
    schema = function._schema
    wanted = [(a.name, str(a.type)) for a in schema.arguments]
    packet = function.overloadpacket
    for name in packet.overloads():
        candidate = getattr(packet, name)
        arguments = candidate._schema.arguments
        outs = tuple(a.name for a in arguments if a.is_out)
        if len(outs) == len(schema.returns) and [(a.name, str(a.type)) for a in arguments if not a.is_out] == wanted:
            return candidate, outs
    return None


def resolve_constant(value: Any) -> Any:
    """Returns the torch dtype, layout or memory format that a string such as "torch.float32" names; any other value as it is."""
    if isinstance(value, str) and value.startswith("torch."):
        named = getattr(torch, value.removeprefix("torch."), None)
        if isinstance(named, _CONSTANTS):
            return named
    return value
