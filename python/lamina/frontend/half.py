"""Half types compute in f32."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

HALF = (torch.float16, torch.bfloat16)


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type a value of `dtype` is computed in."""
    return torch.float32 if dtype in HALF else dtype


def wide(x: Tensor) -> Tensor:
    """`x` in the type it is computed in."""
    return x.to(torch.float32) if x.dtype in HALF else x


def in_f32(fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A decomposition with one floating result: half tensors among its arguments arrive as f32, and the result goes back to
    their promoted type."""

    @wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
        if not any(t.dtype in HALF for t in tensors):
            return fn(*args, **kwargs)
        result = tensors[0].dtype
        for t in tensors[1:]:
            result = torch.promote_types(result, t.dtype) if t.dim() == tensors[0].dim() or t.dim() > 0 else result
        out = fn(*(_widen(a) for a in args), **{k: _widen(a) for k, a in kwargs.items()})
        return out.to(result) if isinstance(out, Tensor) else out

    return run


def _widen(arg: Any) -> Any:
    return wide(arg) if isinstance(arg, Tensor) else arg
