"""Decomposes fake quantization: values rounded to multiples of a scale, with a mask of those that the range of integers holds."""

import ctypes
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def per_tensor(x: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int) -> Any:
    """Quantizes f32 by numbers, whose reciprocal eager rounds to f32; NotImplemented for other types and for open numbers."""
    if x.dtype is not torch.float32 or not isinstance(scale, float) or not isinstance(zero_point, int):
        return NotImplemented
    rounded = ctypes.c_float(scale).value
    return _quantized(x, rounded, ctypes.c_float(1 / rounded).value, zero_point, quant_min, quant_max)


def per_tensor_of_tensors(x: Tensor, scale: Tensor, zero_point: Tensor, enabled: Tensor, quant_min: int, quant_max: int) -> Any:
    """Quantizes f32 by tensors of one element, where the flag is set."""
    if x.dtype is not torch.float32 or scale.dtype is not torch.float32:
        return NotImplemented
    scale, zero_point, on = scale.reshape(()), zero_point.reshape(()), enabled.reshape(()) != 0
    values, held = _quantized(x, scale, 1 / scale, zero_point, quant_min, quant_max)
    return torch.where(on, values, x), held | ~on


def per_channel(x: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int) -> Any:
    """Quantizes f32 by a scale and an integer zero point for each index along a dimension."""
    if x.dtype is not torch.float32 or scale.dtype is not torch.float32 or zero_point.dtype.is_floating_point:
        return NotImplemented
    shape = [-1 if d == axis % x.dim() else 1 for d in range(x.dim())]
    scale, zero_point = scale.view(shape), zero_point.view(shape)
    number = (torch.round(x * (1 / scale)) + zero_point).to(torch.int64)  # infinity becomes the least integer, as in eager
    held = (number >= quant_min) & (number <= quant_max)
    return (number.clamp(quant_min, quant_max) - zero_point).to(torch.float32) * scale, held


def _quantized(x: Tensor, scale: Any, inverse: Any, zero_point: Any, quant_min: int, quant_max: int) -> tuple[Tensor, Tensor]:
    number = torch.round(x * inverse) + zero_point
    above, below = number >= quant_min, number <= quant_max
    kept = torch.where(above, torch.where(below, number, quant_max), quant_min)  # NaN is the least, too
    return (kept - zero_point) * scale, above & below


QUANTIZATION: dict[Any, Callable[..., Any]] = {
    aten.fake_quantize_per_tensor_affine_cachemask.default: per_tensor,
    aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: per_tensor_of_tensors,
    aten.fake_quantize_per_channel_affine_cachemask.default: per_channel,
}
