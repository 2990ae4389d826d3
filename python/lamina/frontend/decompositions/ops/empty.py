"""Decomposes uninitialized tensors into zeros, so that reading them gives the same result in every call."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..undecided import guess, surely
from .random.uniform import permuted_back

aten = torch.ops.aten


def empty(size: Sequence[int], *, memory_format: torch.memory_format | None = None, **kwargs: Any) -> Tensor:
    """Returns zeros in a memory format."""
    out = torch.full(size, 0, **_typed(kwargs))
    return out if memory_format is None else out.contiguous(memory_format=memory_format)


def empty_permuted(size: Sequence[int], physical: Sequence[int], **kwargs: Any) -> Tensor:
    """Returns zeros. physical: the dimensions in memory order."""
    return permuted_back(torch.full([size[d] for d in physical], 0, **_typed(kwargs)), physical)


def empty_strided(size: Sequence[int], strides: Sequence[int], **kwargs: Any) -> Any:
    """Returns zeros with these strides; NotImplemented if they leave gaps."""
    physical = sorted(range(len(size)), key=lambda d: (-guess(strides[d]), d))
    step = 1
    for d in reversed(physical):
        if not surely(strides[d] == step) and not surely(size[d] == 1):
            return NotImplemented
        step *= size[d]
    return empty_permuted(size, physical, **kwargs)


def new_empty_strided(x: Tensor, size: Sequence[int], strides: Sequence[int], **kwargs: Any) -> Any:
    """Returns zeros with these strides, by default in the dtype and on the device of `x`."""
    given = {name: value for name, value in kwargs.items() if value is not None}
    return empty_strided(size, strides, **({"dtype": x.dtype, "device": x.device} | given))


def _typed(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Fills in the default dtype: `full` would take it from the number, `empty` takes the default."""
    return {**kwargs, "dtype": kwargs.get("dtype") or torch.get_default_dtype()}


EMPTY: dict[Any, Callable[..., Any]] = {
    aten.empty.memory_format: empty,
    aten._efficientzerotensor.default: empty,
    aten.empty_permuted.default: empty_permuted,
    aten.empty_strided.default: empty_strided,
    aten.new_empty_strided.default: new_empty_strided,
}
