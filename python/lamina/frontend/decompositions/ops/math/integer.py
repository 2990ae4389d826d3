"""Decomposes integer ops: powers by squaring, division in integers, and 8- or 16-bit integers with Python numbers.

torch-mlir's conversion of such numbers ends the process.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

NARROW = (torch.int8, torch.int16)


def meets_number(x: Any, *scalars: Any) -> bool:
    """Returns whether `x` is a tensor of narrow integers and the scalars are integers that it holds; eager refuses others."""
    if not isinstance(x, Tensor) or x.dtype not in NARROW:
        return False
    info = torch.iinfo(x.dtype)
    return all(isinstance(v, int) and info.min <= v <= info.max for v in scalars)


def with_number(op: Callable[..., Tensor], x: Tensor, other: Any, alpha: Any = 1) -> Tensor:
    """Computes op(x, other * alpha) with the number as a 0-d tensor. Products wrap around, as in eager."""
    if op is torch.rsub:
        return torch.sub(_number(other, x), x if alpha == 1 else x * _number(alpha, x))
    if not isinstance(other, Tensor):
        return op(x, _number(other, x)) if alpha == 1 else op(x, _number(other, x) * _number(alpha, x))
    return op(x, other * _number(alpha, x))


def _number(value: int, like: Tensor) -> Tensor:
    return torch.full((), int(value), dtype=like.dtype, device=like.device)


def power(x: Tensor, n: int) -> Tensor:
    """Computes non-negative integer powers by squaring."""
    out, square = torch.ones_like(x), x
    while n:
        out = out * square if n & 1 else out
        square, n = square * square, n >> 1
    return out


def divide(x: Tensor, y: Any, dtype: torch.dtype, mode: str) -> Any:
    """Divides toward zero ("trunc") or down ("floor") in integers: torch-mlir floors through f64, which has 53 bits."""
    if isinstance(y, int) and dtype in NARROW:
        return torch.div(x.to(torch.int32), y, rounding_mode=mode).to(dtype)
    same = x.dtype == dtype and not (isinstance(y, Tensor) and y.dtype != dtype)
    if same and mode == "trunc":
        return NotImplemented
    x, y = x.to(dtype), y.to(dtype) if isinstance(y, Tensor) else y
    quotient = torch.div(x, y, rounding_mode="trunc")
    if mode == "trunc":
        return quotient
    rest = x - quotient * y
    other_sign = (rest < 0) != (y < 0) if isinstance(y, Tensor) else rest < 0 if y > 0 else rest > 0
    return quotient - ((rest != 0) & other_sign).to(dtype)


def fmod(x: Tensor, y: Any, dtype: torch.dtype) -> Any:
    """Computes the remainder of truncated division by a number."""
    if isinstance(y, Tensor) or y == 0 or dtype in (torch.bool, torch.uint8):
        return NotImplemented
    a = x.to(torch.int32 if dtype in NARROW else dtype)
    return (a - torch.div(a, y, rounding_mode="trunc") * y).to(dtype)


def remainder(x: Tensor, y: Any) -> Any:
    """Computes the remainder of narrow integers by a number in 32 bits."""
    return torch.remainder(x.to(torch.int32), y).to(x.dtype) if meets_number(x, y) and y != 0 else NotImplemented


def _bitwise(op: Callable[..., Tensor]) -> Callable[..., Any]:
    """Wraps a bitwise op of a tensor and an integer: the integer becomes a tensor of the same dtype."""

    def run(x: Tensor, other: Any) -> Any:
        if x.dtype in (torch.bool, torch.uint8) or isinstance(other, bool):
            return NotImplemented
        limits = torch.iinfo(x.dtype)
        return op(x, _number(other, x)) if limits.min <= other <= limits.max else NotImplemented

    return run


INTEGERS: dict[Any, Callable[..., Any]] = {
    aten.remainder.Scalar: remainder,
    aten.bitwise_and.Scalar: _bitwise(torch.bitwise_and),
    aten.bitwise_or.Scalar: _bitwise(torch.bitwise_or),
    aten.bitwise_xor.Scalar: _bitwise(torch.bitwise_xor),
}
