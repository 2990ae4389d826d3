"""Decomposes pointwise ops whose scalars torch-mlir would round to a half type, or that it computes through f64, and activations of
which torch's own decompositions have another dtype or another result for NaN."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ..half import HALF, in_f32, is_exact, promoted_dtype, wide_dtype
from .math import integer

aten = torch.ops.aten
_MISH_LINEAR = 20  # from which on softplus is linear to eager, and mish to floats
_LARGEST = 464  # the largest number that float8_e4m3fn rounds to 448, its own largest


def _scalar_op(op: Callable[..., Tensor]) -> Callable[..., Any]:
    """Wraps a binary op of a half tensor and a Python scalar (or alpha) that its dtype cannot hold: eager computes it in f32."""

    def run(x: Tensor, other: Any, *rest: Any, **kwargs: Any) -> Any:
        """Computes the op where a Python number would lose precision in the tensor's dtype."""
        numbers = [v for v in (other, *rest, *kwargs.values()) if isinstance(v, int | float)]
        if numbers and op is not torch.div and integer.meets_number(x, *numbers):
            return integer.with_number(op, x, other, *rest, **kwargs)
        scalars = [v for v in numbers if not isinstance(v, bool)]
        if not isinstance(x, Tensor) or x.dtype not in HALF or all(is_exact(v, x.dtype) for v in scalars):
            return NotImplemented
        return in_f32(op)(x, other, *rest, **kwargs)

    return run


def power(x: Tensor, n: Any) -> Any:
    """Raises a tensor to a number; integers to non-negative integers by squaring, and to floats after conversion: torch-mlir's own
    ends the process for narrow ones."""
    if isinstance(n, float) and not x.dtype.is_floating_point and not x.dtype.is_complex:
        return torch.pow(x.to(torch.result_type(x, n)), n)
    if x.dtype.is_floating_point or not isinstance(n, int) or n < 0:
        return _scalar_op(torch.pow)(x, n)
    return integer.power(x.to(torch.result_type(x, n)), n)


def power_of(base: Any, x: Tensor) -> Any:
    """Raises a number to a tensor."""
    dtype = torch.result_type(x, base)
    if not dtype.is_floating_point:
        return integer.power_of(base, x.to(dtype)) if dtype is not torch.bool else NotImplemented
    return in_f32(lambda x: torch.pow(torch.full((), base, dtype=x.dtype, device=x.device), x))(x.to(dtype))


def lerp(x: Tensor, end: Tensor, weight: Any) -> Tensor:
    """Interpolates in eager's two forms, so that both ends are met exactly."""

    def run(x: Tensor, end: Tensor, *w: Tensor) -> Tensor:
        """Interpolates from the nearer end, as eager does."""
        if not w:
            return x + weight * (end - x) if abs(weight) < 0.5 else end - (end - x) * (1 - weight)
        near, far = x + w[0] * (end - x), end - (end - x) * (1 - w[0])
        return torch.where(torch.abs(w[0]) < 0.5, near, far)

    return in_f32(run)(x, end, *([weight] if isinstance(weight, Tensor) else []))  # type: ignore[no-any-return]


def clamp(x: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Clamps by maximum and minimum, which keep NaN."""
    dtype = promoted_dtype(*(v for v in (x, min, max) if v is not None))
    out = x.to(dtype)
    if min is not None:
        out = torch.maximum(out, _bound(min, dtype, x))
    if max is not None:
        out = torch.minimum(out, _bound(max, dtype, x))
    return out


def _bound(value: Any, dtype: torch.dtype, x: Tensor) -> Tensor:
    return value.to(dtype) if isinstance(value, Tensor) else torch.full((), value, dtype=dtype, device=x.device)


def div_mode(x: Tensor, y: Any, *, rounding_mode: str | None) -> Any:
    """Divides with a rounding mode; NotImplemented without one and for truth values."""
    dtype = torch.result_type(x, y)
    if rounding_mode is None or dtype is torch.bool:
        return NotImplemented
    if dtype.is_floating_point:
        return _divide_floats(x, y, dtype, rounding_mode)
    return integer.divide(x, y, dtype, rounding_mode)


def _divide_floats(x: Tensor, y: Any, dtype: torch.dtype, mode: str) -> Tensor:
    wide = wide_dtype(dtype)
    dividend, divisor = x.to(wide), y.to(wide) if isinstance(y, Tensor) else y
    quotient = dividend / divisor
    if mode == "trunc":
        return _trunc(quotient).to(dtype)
    if not isinstance(divisor, Tensor) and divisor == 0:
        return quotient.to(dtype)
    # Eager's floor division: the remainder decides, since a / b may round up to a whole number.
    rest = torch.fmod(dividend, divisor)
    floored = (dividend - rest) / divisor
    floored = torch.where((rest != 0) & ((rest < 0) != (divisor < 0)), floored - 1, floored)
    floor = torch.floor(floored)
    floor = torch.where(floored - floor > 0.5, floor + 1, floor)
    floor = torch.where(floored != 0, floor, quotient * 0)  # a zero with the quotient's sign
    return (torch.where(divisor == 0, quotient, floor) if isinstance(divisor, Tensor) else floor).to(dtype)


def _trunc(x: Tensor) -> Tensor:
    return torch.where(x < 0, torch.ceil(x), torch.floor(x))


def fmod(x: Tensor, y: Any) -> Any:
    """Computes the remainder of the absolute values, which is exact, with the sign of x, also for zeros.

    For integers it is the remainder of truncated division.
    """
    dtype = torch.result_type(x, y)
    if dtype.is_floating_point:
        wide = wide_dtype(dtype)
        divisor = torch.abs(y.to(wide)) if isinstance(y, Tensor) else abs(y)
        rest = torch.remainder(torch.abs(x.to(wide)), divisor)
        return torch.where((x == 0) & (rest == rest), x.to(wide), torch.where(x < 0, -rest, rest)).to(dtype)
    return integer.fmod(x, y, dtype)


def full(size: Any, value: Any, **kwargs: Any) -> Any:
    """Fills with truth values of 0 or 1, as torch-mlir keeps the lowest bit of a number, and with a number in the place of a truth
    value, which it takes for -1."""
    dtype = kwargs.get("dtype")
    if dtype is None or (dtype is torch.bool) is isinstance(value, bool):
        return NotImplemented
    return torch.full(size, bool(value) if dtype is torch.bool else int(value), **kwargs)


def scalar_tensor(value: Any, *, dtype: torch.dtype | None = None, device: Any = None, **_: Any) -> Tensor:
    """Makes a 0-d tensor by `full`: torch-mlir makes every number f64 first, and has no place for a 0-d literal of f64."""
    return torch.full((), value, dtype=dtype or torch.get_default_dtype(), device=device)


def isnan(x: Tensor) -> Tensor:
    """Returns x != x; false for integers."""
    return x != x if x.dtype.is_floating_point else torch.zeros_like(x, dtype=torch.bool)


def equal(x: Tensor, y: Tensor) -> Any:
    """Compares floats by not (x != y): torch-mlir folds x == x to true even for NaN, but does not fold x != x."""
    if not (x.dtype.is_floating_point and y.dtype.is_floating_point):
        return NotImplemented
    return torch.logical_not(x != y)


def isinf(x: Tensor) -> Tensor:
    """Returns |x| == inf; false for integers."""
    return torch.abs(x) == float("inf") if x.dtype.is_floating_point else torch.zeros_like(x, dtype=torch.bool)


def sign(x: Tensor) -> Tensor:
    """Computes (x > 0) - (x < 0): 0 for NaN, as in eager."""
    return x.clone() if x.dtype is torch.bool else (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


@cache
def overflows() -> bool:
    """Returns whether this torch converts what is too large for float8_e4m3fn to NaN.

    torch 2.11 does; 2.13 gives 448.
    """
    with _disable_current_modes():
        return bool(torch.tensor(1e9).to(torch.float8_e4m3fn).float().isnan())


def to_copy(x: Tensor, *, dtype: torch.dtype | None = None, **kwargs: Any) -> Any:
    """Replaces values too large for float8_e4m3fn by NaN where this torch does: Lamina's conversion yields 448, as GPUs do."""
    plain = all(kwargs.get(key) is None for key in ("device", "layout", "memory_format"))
    if dtype is not torch.float8_e4m3fn or x.dtype not in (*HALF, torch.float32) or not plain or not overflows():
        return NotImplemented
    return torch.ops.prims.convert_element_type.default(torch.where(x.abs() > _LARGEST, torch.nan, x), dtype)


def hardtanh(x: Tensor, min_val: float = -1, max_val: float = 1) -> Tensor:
    """Clamps to the bounds. Integers stay integers: their bounds are truncated."""
    if not x.dtype.is_floating_point:
        min_val, max_val = int(min_val), int(max_val)
    return torch.clamp(x, min_val, max_val)


def hardtanh_backward(grad: Tensor, x: Tensor, min_val: float, max_val: float) -> Tensor:
    """Passes the gradient on strictly between the bounds, 0 elsewhere and where x is NaN."""
    return torch.where((x > min_val) & (x < max_val), grad, 0).to(promoted_dtype(grad, x))


def rrelu_backward(
    grad: Tensor, x: Tensor, noise: Tensor, lower: float, upper: float, training: bool, self_is_result: bool
) -> Tensor:
    """Multiplies by the slopes that were drawn, or, outside of training and where there is one slope only, by their mean."""
    if training and upper - lower > 1e-6:
        return grad * noise
    return aten.leaky_relu_backward.default(grad, x, (lower + upper) / 2, self_is_result)  # type: ignore[no-any-return]


@in_f32
def hardswish_backward(grad: Tensor, x: Tensor) -> Tensor:
    """Computes grad * (x / 3 + 0.5) between -3 and 3, 0 below and grad above; NaN where x is."""
    return torch.where(x <= -3, 0, torch.where(x >= 3, grad, grad * (x / 3 + 0.5)))


def _mish_powers(x: Tensor) -> tuple[Tensor, Tensor]:
    """Returns e = exp(x), and n = e * (e + 2): tanh(softplus(x)) is n / (n + 2), as tanh(log(y)) is (y * y - 1) / (y * y + 1)."""
    e = torch.exp(torch.clamp(x, max=_MISH_LINEAR))
    return e, e * (e + 2)


@in_f32
def mish(x: Tensor) -> Tensor:
    """Computes x * tanh(softplus(x)) by one exponential and one quotient."""
    _, n = _mish_powers(x)
    return torch.where(x > _MISH_LINEAR, x, x * (n / (n + 2)))


@in_f32
def _mish_slopes(grad: Tensor, x: Tensor) -> Tensor:
    e, n = _mish_powers(x)
    slope = n / (n + 2) + x * (e * (e + 1) * 4 / ((n + 2) * (n + 2)))
    return torch.where(x > _MISH_LINEAR, grad, grad * slope)


def mish_backward(grad: Tensor, x: Tensor) -> Tensor:
    """Computes grad * (t + x * sigmoid(x) * (1 - t * t)), t = tanh(softplus(x)), by one exponential, in the dtype of x."""
    return _mish_slopes(grad, x).to(x.dtype)


POINTWISE: dict[Any, Callable[..., Any]] = {
    aten._to_copy.default: to_copy,
    aten.add.Tensor: _scalar_op(torch.add),
    aten.sub.Tensor: _scalar_op(torch.sub),
    aten.mul.Tensor: _scalar_op(torch.mul),
    aten.div.Tensor: _scalar_op(torch.div),
    aten.add.Scalar: _scalar_op(torch.add),
    aten.sub.Scalar: _scalar_op(torch.sub),
    aten.mul.Scalar: _scalar_op(torch.mul),
    aten.div.Scalar: _scalar_op(torch.div),
    aten.rsub.Scalar: _scalar_op(torch.rsub),
    aten.pow.Tensor_Scalar: power,
    aten.pow.Scalar: power_of,
    aten.lerp.Scalar: lerp,
    aten.lerp.Tensor: lerp,
    aten.clamp.default: clamp,
    aten.clamp.Tensor: clamp,
    aten.clamp_min.default: lambda x, value: clamp(x, value, None),
    aten.clamp_max.default: lambda x, value: clamp(x, None, value),
    aten.clamp_min.Tensor: lambda x, value: clamp(x, value, None),
    aten.clamp_max.Tensor: lambda x, value: clamp(x, None, value),
    aten.div.Tensor_mode: div_mode,
    aten.div.Scalar_mode: div_mode,
    aten.fmod.Tensor: fmod,
    aten.fmod.Scalar: fmod,
    aten.full.default: full,
    aten.scalar_tensor.default: scalar_tensor,
    aten.eq.Tensor: equal,
    aten.isnan.default: isnan,
    aten.isinf.default: isinf,
    aten.sign.default: sign,
    aten.trunc.default: _trunc,
    aten.mish.default: mish,
    aten.mish_backward.default: mish_backward,
    aten.hardtanh.default: hardtanh,
    aten.hardtanh_backward.default: hardtanh_backward,
    aten.hardswish_backward.default: hardswish_backward,
    aten.rrelu_with_noise_backward.default: rrelu_backward,
}
