"""Prepares example inputs for torch.export: no two share memory, and pytree knows the dataclasses among them."""

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor, nn

from ..fx.aliases import storage


def without_shared_memory(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the inputs with an uninitialized tensor in place of each one that shares memory with another or with the model."""
    own = (t for m in module.modules() for held in (m._parameters, m._buffers) for t in held.values() if t is not None)
    seen = {_memory(t) for t in own}
    replacements: dict[int, Tensor] = {}

    def replaced(leaf: Tensor) -> Tensor:
        """Returns a tensor with memory of its own for a leaf that shares some."""
        if leaf.layout is not torch.strided or _memory(leaf) is None:
            return leaf
        if id(leaf) not in replacements:
            shared = _memory(leaf) in seen or isinstance(leaf, nn.Parameter)
            seen.add(_memory(leaf))
            replacements[id(leaf)] = _empty_like(leaf) if shared else leaf
        return replacements[id(leaf)]

    positional, named = pytree.tree_map_only(Tensor, replaced, (args, dict(kwargs)))
    return positional, named


def _empty_like(tensor: Tensor) -> Tensor:
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    return made.requires_grad_(tensor.requires_grad)


def _memory(tensor: Tensor) -> int | None:
    """Returns the memory that a plain tensor lies in; None for others."""
    return storage(tensor) if type(tensor) in (Tensor, nn.Parameter) and tensor.device.type != "meta" else None


def register(value: Any) -> None:
    """Registers the dataclasses in a value with pytree, which flattens only types that it knows."""
    if isinstance(value, list | tuple):
        for item in value:
            register(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            register(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            register(getattr(value, field.name, None))
        if type(value) not in pytree.SUPPORTED_NODES:
            torch.export.register_dataclass(type(value))


@contextmanager
def registering(module: nn.Module) -> Iterator[None]:
    """Registers the dataclasses that the module returns, while it is traced."""
    with module.register_forward_hook(lambda module, args, output: register(output)):
        yield
