"""Finds where in the user's model an FX node comes from: a source line, a module, an op that was decomposed."""

import os
import re
from functools import cache
from typing import Any

import torch
from torch import fx

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_NOT_USERS = (os.path.dirname(torch.__file__) + os.sep, os.path.dirname(os.path.dirname(__file__)) + os.sep)
# Dynamo's notation of the model itself ("L['self']"), and of modules in it where it does not use their names.
_ROOT = re.compile(r"^[LG]\['\w+'\]")
_CHILD = re.compile(r"\.?_modules\['([^']+)'\]")


@cache
def _frames(trace: str) -> tuple[tuple[str, int] | None, tuple[str, int] | None]:
    """Returns the innermost frame of a stack trace that is neither torch's nor Lamina's, and the innermost of all."""
    frames = [(file, int(line)) for file, line in _FRAME.findall(trace)]
    users = [frame for frame in frames if not frame[0].startswith(_NOT_USERS)]
    return users[-1] if users else None, frames[-1] if frames else None


def source_of(node: fx.Node) -> tuple[str, int] | None:
    """Returns (file, line) in the model; None if it is not known. A node that only torch's own modules account for has the
    module's path and kind and line 0: ("0: Linear", 0)."""
    trace = node.meta.get("stack_trace")
    users, innermost = _frames(trace) if trace else (None, None)
    if users is not None:
        return users
    stack = node.meta.get("nn_module_stack")
    return (_module(*list(stack.values())[-1]), 0) if stack else innermost


def _module(path: str, kind: Any) -> str:
    """Formats torch's notation of a module as "encoder.0: Linear"; the model itself as "Linear"."""
    name = kind.__name__ if isinstance(kind, type) else str(kind).rpartition(".")[2]
    place = _CHILD.sub(r".\1", _ROOT.sub("", path)).strip(".")
    return f"{place}: {name}" if place else name


def where(node: fx.Node) -> str:
    """Returns "file:line" for messages, or the module, or ""."""
    source = source_of(node)
    return "" if source is None else f"{source[0]}:{source[1]}" if source[1] else source[0]


def origin_of(node: fx.Node) -> str:
    """Returns the op of the model whose decomposition created this node ("aten.gelu.default"), or ""."""
    origin = node.meta.get("original_aten")
    if not isinstance(origin, torch._ops.OpOverload) or not isinstance(node.target, torch._ops.OpOverload):
        return ""
    names = [op.overloadpacket.__name__.strip("_") for op in (origin, node.target)]
    return "" if names[0] == names[1] else str(origin)
