"""Decomposes integer ops: powers by squaring, division in integers, and 8- or 16-bit integers with Python numbers.

torch-mlir's conversion of such numbers ends the process.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table

from ....fx.dtypes import wrapped
from ...undecided import is_unbacked, surely

aten = torch.ops.aten

NARROW = (torch.int8, torch.int16)

_POWERS = 32  # of a number that are multiplied for its power by an integer; with more, ATen computes


def meets_number(x: Any, *scalars: Any) -> bool:
    """Returns whether `x` is a tensor of narrow integers or truth values and the scalars are some that it holds; eager refuses
    others."""
    if isinstance(x, Tensor) and x.dtype is torch.bool:
        return all(isinstance(v, bool) for v in scalars)
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
    return torch.full((), value, dtype=like.dtype, device=like.device)


def power(x: Tensor, n: int) -> Tensor:
    """Computes non-negative integer powers by squaring."""
    out, square = torch.ones_like(x), x
    while n:
        out = out * square if n & 1 else out
        square, n = square * square, n >> 1
    return out


def power_of(base: int, n: Tensor) -> Any:
    """Raises a number to integers, bit by bit. The powers for high bits wrap around to 0, or to 1 for an odd number; those of
    negative integers are 0, except for 1 and -1."""
    limits = torch.iinfo(n.dtype)
    values = 1 << limits.bits
    powers = [base % values]
    while powers[-1] not in (0, 1):
        powers.append(powers[-1] ** 2 % values)
    if len(powers) > _POWERS:
        return NotImplemented
    out = torch.ones_like(n)
    for bit, power in enumerate(powers[:-1]):
        factor = power if power <= limits.max else power - values
        out = torch.where((n & (1 << bit)) != 0, out * factor, out)
    if powers[-1] == 0:
        out = torch.where(n < 1 << (len(powers) - 1), out, 0)
    return out if abs(base) == 1 else torch.where(n < 0, 0, out)


def divide(x: Tensor, y: Any, dtype: torch.dtype, mode: str) -> Any:
    """Divides toward zero ("trunc") or down ("floor") in integers: torch-mlir floors through f64, which has 53 bits."""
    wide = _wide(dtype)
    if mode == "trunc" and all(v.dtype is wide for v in (x, y) if isinstance(v, Tensor)):
        return NotImplemented
    dividend, divisor = x.to(dtype).to(wide), _divisor(_known(y, x), dtype, wide)
    quotient = torch.div(dividend, divisor, rounding_mode="trunc")
    if mode == "trunc" or dtype is torch.uint8:
        return quotient.to(dtype)
    rest = dividend - quotient * divisor
    other_sign = (rest < 0) != (divisor < 0) if isinstance(divisor, Tensor) else rest < 0 if divisor > 0 else rest > 0
    return (quotient - ((rest != 0) & other_sign).to(wide)).to(dtype)


def natural_quotient(x: Tensor, y: int) -> Tensor:
    """Divides integers that are not negative by a positive number: in one op, where division that rounds down takes nine. Negative
    ones are rounded toward zero."""
    return x if surely(y == 1) else torch.div(x, y, rounding_mode="trunc")


def fmod(x: Tensor, y: Any, dtype: torch.dtype) -> Any:
    """Computes the remainder of truncated division."""
    y = _known(y, x)
    if dtype is torch.bool or (not isinstance(y, Tensor) and y == 0):
        return NotImplemented
    wide = _wide(dtype)
    dividend, divisor = x.to(dtype).to(wide), _divisor(y, dtype, wide)
    return (dividend - torch.div(dividend, divisor, rounding_mode="trunc") * divisor).to(dtype)


def remainder(x: Tensor, y: Any) -> Any:
    """Computes the remainder of division that rounds down, of narrow integers in 32 bits."""
    if not isinstance(y, Tensor):
        return torch.remainder(x.to(torch.int32), y).to(x.dtype) if meets_number(x, y) and y != 0 else NotImplemented
    dtype = torch.result_type(x, y)
    if dtype.is_floating_point or dtype is torch.bool:
        return NotImplemented
    wide = _wide(dtype)
    dividend, divisor = x.to(dtype).to(wide), _divisor(y, dtype, wide)
    rest = dividend - torch.div(dividend, divisor, rounding_mode="trunc") * divisor
    return (rest + torch.where((rest != 0) & ((rest < 0) != (divisor < 0)), divisor, 0)).to(dtype)


def remainder_of(x: float, y: Tensor) -> Tensor:
    """Computes the remainder of a number."""
    return torch.remainder(torch.full((), x, dtype=torch.result_type(x, y), device=y.device), y)


def _wide(dtype: torch.dtype) -> torch.dtype:
    """Returns the dtype in which integers are divided: the processor has no division of 8 bits, and of 16 only a slower one."""
    return torch.int32 if dtype in (*NARROW, torch.uint8) else dtype


def _known(y: Any, x: Tensor) -> Any:
    """Returns a size on which torch may not guard as a tensor, and any other divisor as it is."""
    return torch.full((), y, dtype=torch.int64, device=x.device) if is_unbacked(y) else y


def _divisor(y: Any, dtype: torch.dtype, wide: torch.dtype) -> Any:
    if isinstance(y, Tensor):
        return y.to(dtype).to(wide)
    return wrapped(y, dtype) if isinstance(y, int) else y


def _bitwise(op: Callable[..., Tensor]) -> Callable[..., Any]:
    """Wraps a bitwise op of a tensor and an integer: the integer becomes a tensor of the same dtype."""

    def run(x: Tensor, other: Any) -> Any:
        """Combines integers with a number."""
        if x.dtype is torch.bool or isinstance(other, bool):
            return NotImplemented
        return op(x, _number(wrapped(other, x.dtype), x))

    return run


def _shift(op: Callable[..., Tensor]) -> Callable[..., Any]:
    """Wraps a shift of bits: numbers become tensors."""

    def run(x: Any, places: Any) -> Any:
        """Shifts integers, of which one may be a Python number."""
        dtype = torch.result_type(x, places)
        if dtype.is_floating_point or dtype is torch.bool:
            return NotImplemented
        device = (x if isinstance(x, Tensor) else places).device
        return op(*(v if isinstance(v, Tensor) else torch.full((), v, dtype=dtype, device=device) for v in (x, places)))

    return run


_LEFT = (
    aten.__lshift__.Scalar, aten.__lshift__.Tensor, aten.bitwise_left_shift.Tensor_Scalar, aten.bitwise_left_shift.Scalar_Tensor,
)  # fmt: skip
_RIGHT = (
    aten.__rshift__.Scalar, aten.__rshift__.Tensor, aten.bitwise_right_shift.Tensor_Scalar, aten.bitwise_right_shift.Scalar_Tensor,
)  # fmt: skip


def _arange(start: Any, end: Any, step: Any, named: dict[str, Any]) -> Any:
    dtype, floats = named.get("dtype"), any(isinstance(v, float | torch.SymFloat) for v in (start, end, step))
    if any(isinstance(v, torch.SymFloat) for v in (start, end, step)) and (dtype is None or dtype.is_floating_point):
        numbers = torch.arange(math.ceil((end - start) / step), dtype=torch.float64, device=named.get("device"))
        return (numbers * step + start).to(dtype or torch.get_default_dtype())
    if dtype is None or dtype.is_floating_point or not (floats or dtype in NARROW):
        return NotImplemented
    if floats:  # eager counts in f64, and cuts start and step
        numbers = torch.arange(max(0, math.ceil((end - start) / step)), dtype=torch.int64, device=named.get("device"))
        return (numbers * int(step) + int(start)).to(dtype)
    return torch.arange(start, end, step, dtype=torch.int64, device=named.get("device")).to(dtype)


def arange(start: Any, end: Any, step: Any = 1, **named: Any) -> Any:
    """Counts in 64 bits, for narrow integers too, and by whole numbers, where floats are given; by floats made of sizes in f64."""
    return _arange(start, end, step, named)


def arange_to(end: Any, **named: Any) -> Any:
    """Counts from 0."""
    return _arange(0, end, 1, named)


def linspace(start: Any, end: Any, steps: int, **named: Any) -> Any:
    """Counts between whole numbers, where those are asked for: eager cuts both ends first, which torch's decomposition does not."""
    dtype = named.get("dtype")
    cut = dtype is not None and not dtype.is_floating_point and not dtype.is_complex
    ends = [torch.sym_int(end) if cut and isinstance(end, float | torch.SymFloat) else end for end in (start, end)]
    return decomposition_table[aten.linspace.default](*ends, steps, **named)


INTEGERS: dict[Any, Callable[..., Any]] = {
    aten.arange.default: arange_to,
    aten.arange.start: arange,
    aten.arange.start_step: arange,
    aten.linspace.default: linspace,
    aten.remainder.Scalar: remainder,
    aten.remainder.Tensor: remainder,
    aten.remainder.Scalar_Tensor: remainder_of,
    aten.bitwise_and.Scalar: _bitwise(torch.bitwise_and),
    aten.bitwise_or.Scalar: _bitwise(torch.bitwise_or),
    aten.bitwise_xor.Scalar: _bitwise(torch.bitwise_xor),
    **dict.fromkeys(_LEFT, _shift(aten.bitwise_left_shift.Tensor)),
    **dict.fromkeys(_RIGHT, _shift(aten.bitwise_right_shift.Tensor)),
}
