"""Computes half-precision ops in f32, with results in the dtypes that eager's promotion gives."""

import math
import struct
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

HALF = (torch.float16, torch.bfloat16)


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """Returns the dtype that values of `dtype` are computed in: f32 for half types, else `dtype`."""
    return torch.float32 if dtype in HALF else dtype


def in_compute_dtype(x: Tensor) -> Tensor:
    """Returns `x` in the dtype that it is computed in."""
    return x.to(torch.float32) if x.dtype in HALF else x


def promoted_dtype(*args: Any) -> torch.dtype:
    """Returns the dtype of a pointwise op's result: tensors with dimensions outrank 0-d tensors, both outrank Python numbers."""
    _, result = elementwise_dtypes(*args, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)
    return result


def rounded_number(value: float, dtype: torch.dtype) -> float:
    """Returns a number as a half type holds it. Makes no tensor: it would become part of the graph being traced."""
    if not math.isfinite(value):
        return value
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", float(value)))
        if dtype is torch.float16:
            return float(struct.unpack("<e", struct.pack("<e", single))[0])
        (bits,) = struct.unpack("<I", struct.pack("<f", single))
        even = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
        return float(struct.unpack("<f", struct.pack("<I", even))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def is_exact(value: float, dtype: torch.dtype) -> bool:
    """Returns whether a half type holds a number exactly."""
    return math.isnan(value) or rounded_number(value, dtype) == value


def in_f32(fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Wraps a decomposition with one floating result so that it computes half tensors in f32.

    Half tensors among its arguments arrive as f32, and the result gets the promoted dtype of its tensors. Where only integers come
    in, the result's dtype is left to `fn`.
    """

    @wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        """Computes in f32 and rounds the result."""
        result = promoted_dtype(*(a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)))
        out = fn(*(_widen(a) for a in args), **{k: _widen(a) for k, a in kwargs.items()})
        return out.to(result) if isinstance(out, Tensor) and result.is_floating_point else out

    return run


def of_floats(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a decomposition of a function of floats so that it takes integers and truth values, too, in the default dtype."""

    @wraps(fn)
    def run(*args: Any) -> Any:
        """Converts tensors where none is of floats."""
        if any(isinstance(a, Tensor) and a.dtype.is_floating_point for a in args):
            return fn(*args)
        return fn(*(a.to(torch.get_default_dtype()) if isinstance(a, Tensor) else a for a in args))

    return run


def _widen(arg: Any) -> Any:
    return in_compute_dtype(arg) if isinstance(arg, Tensor) else arg
