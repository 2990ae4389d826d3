"""Adapts decompositions to arguments that they are not written for: complex tensors, and numbers in place of tensors.

torch.div(40, 4) and torch.div(40, x) reach ATen's tensor overloads, and the dispatcher passes the number on as a number.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_OF_ANY = (torch.ops.aten.constant_pad_nd.default,)
"""Ops whose decompositions only move elements, which may be complex."""


def with_guards(op: torch._ops.OpOverload, decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a decomposition of `op`: it takes a number as its first tensor, too, and leaves complex tensors to ATen.

    Decompositions are written for real tensors, except for those that only move elements.
    """
    first = op._schema.arguments[0] if op._schema.arguments else None
    takes_tensor = first is not None and isinstance(first.type, torch.TensorType)

    @functools.wraps(decomposition)
    def call(*args: Any, **kwargs: Any) -> Any:
        """Calls the decomposition, or returns NotImplemented for arguments that it does not take."""
        if op not in _OF_ANY and any(_is_complex(a) for a in (*args, *kwargs.values())):
            return NotImplemented
        if takes_tensor and args and isinstance(args[0], int | float | torch.SymInt | torch.SymFloat):
            args = (_tensor(args[0], args[1:]), *args[1:])
        return decomposition(*args, **kwargs)

    return call


def _is_complex(arg: Any) -> bool:
    if isinstance(arg, list | tuple):
        return any(_is_complex(a) for a in arg)
    return isinstance(arg, complex) or (isinstance(arg, Tensor) and arg.dtype.is_complex)


def _tensor(number: float, others: tuple[Any, ...]) -> Tensor:
    """Returns a 0-d tensor on the others' device, with the dtype that the number has among the other arguments."""
    tensor = next((a for a in others if isinstance(a, Tensor)), None)
    if tensor is None:
        return torch.full((), number)
    return torch.full((), number, dtype=torch.result_type(number, tensor), device=tensor.device)
