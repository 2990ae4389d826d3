"""Decompositions where a tensor is a Python number: torch.div(40, 4) and torch.div(40, x) reach ATen's overloads of tensors, and the
dispatcher gives what was a number as a number again."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def takes_numbers(op: torch._ops.OpOverload, decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """`decomposition` of `op`, for a number in the place of its first tensor too."""
    first = op._schema.arguments[0] if op._schema.arguments else None
    if first is None or not isinstance(first.type, torch.TensorType):
        return decomposition

    @functools.wraps(decomposition)
    def call(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], int | float | complex):
            args = (_tensor(args[0], args[1:]), *args[1:])
        return decomposition(*args, **kwargs)

    return call


def _tensor(number: complex, others: tuple[Any, ...]) -> Tensor:
    """A scalar of the dtype that the number has among the other arguments, on their device."""
    tensor = next((a for a in others if isinstance(a, Tensor)), None)
    if tensor is None:
        return torch.full((), number)
    return torch.full((), number, dtype=torch.result_type(number, tensor), device=tensor.device)
