"""Decomposes activations and their gradients into arithmetic and the few transcendentals that the kernels know."""

import math
from typing import Any

import torch
from torch import Tensor

from ..half import in_f32, promoted, wide

aten = torch.ops.aten

_SQRT_HALF = math.sqrt(0.5)
_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)


@in_f32
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """Computes x * Phi(x) by erf, or by the tanh approximation."""
    if approximate == "tanh":
        return 0.5 * x * (1 + torch.tanh(_SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1 + torch.erf(x * _SQRT_HALF))


@in_f32
def gelu_backward(grad: Tensor, x: Tensor, *, approximate: str = "none") -> Tensor:
    """Computes grad * (Phi(x) + x * phi(x)), or the derivative of the tanh approximation."""
    if approximate == "tanh":
        t = torch.tanh(_SQRT_2_OVER_PI * (x + 0.044715 * x * x * x))
        slope = _SQRT_2_OVER_PI * (1 + 3 * 0.044715 * x * x)
        return grad * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope)
    cdf = 0.5 * (1 + torch.erf(x * _SQRT_HALF))
    return grad * (cdf + x * (_INV_SQRT_2PI * torch.exp(-0.5 * x * x)))


@in_f32
def silu(x: Tensor) -> Tensor:
    """Computes x * sigmoid(x)."""
    return x * torch.sigmoid(x)


@in_f32
def silu_backward(grad: Tensor, x: Tensor) -> Tensor:
    """Computes grad * s * (1 + x * (1 - s)) with s = sigmoid(x)."""
    s = torch.sigmoid(x)
    return grad * s * (1 + x * (1 - s))


@in_f32
def softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """Computes log1p(exp(beta * x)) / beta; x itself where beta * x is above the threshold."""
    z = x * beta
    return torch.where(z > threshold, x, _log1p(torch.exp(torch.where(z > threshold, 0.0, z))) / beta)


@in_f32
def softplus_backward(grad: Tensor, x: Tensor, beta: float, threshold: float) -> Tensor:
    """Computes grad * sigmoid(beta * x); grad itself where beta * x is above the threshold."""
    z = x * beta
    return torch.where(z > threshold, grad, grad * torch.sigmoid(z))


@in_f32
def log_sigmoid_forward(x: Tensor) -> Any:
    """Computes min(x, 0) - log1p(exp(-|x|))."""
    return torch.clamp(x, max=0) - _log1p(torch.exp(-torch.abs(x)))


def log_sigmoid_pair(x: Tensor) -> tuple[Tensor, Tensor]:
    """Returns log_sigmoid and the buffer that the device's own kernel saves for its backward pass."""
    return log_sigmoid_forward(x), torch.exp(-torch.abs(x)) if x.device.type == "cpu" else x.new_zeros((0,))


@in_f32
def mish(x: Tensor) -> Tensor:
    """Computes x * tanh(softplus(x))."""
    return x * torch.tanh(softplus(x))


def mish_backward(grad: Tensor, x: Tensor) -> Tensor:
    """Computes grad * (t + x * sigmoid(x) * (1 - t^2)) with t = tanh(softplus(x))."""
    w = wide(x)
    t = torch.tanh(softplus(w))
    return (wide(grad) * (t + w * torch.sigmoid(w) * (1 - t * t))).to(x.dtype)


@in_f32
def hardsigmoid(x: Tensor) -> Tensor:
    """Computes clamp(x + 3, 0, 6) / 6."""
    return torch.clamp(x + 3, 0, 6) / 6


@in_f32
def hardswish(x: Tensor) -> Tensor:
    """Computes x * clamp(x + 3, 0, 6) / 6."""
    return x * torch.clamp(x + 3, 0, 6) / 6


@in_f32
def elu(x: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    """Computes scale * x for positive x, else scale * alpha * expm1(input_scale * x)."""
    negative = torch.where(x > 0, 0.0, x)
    return torch.where(x > 0, x * scale, torch.expm1(negative * input_scale) * (alpha * scale))


@in_f32
def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Computes x for positive x, else negative_slope * x."""
    return torch.where(x > 0, x, x * negative_slope)


def hardtanh(x: Tensor, min_val: float = -1, max_val: float = 1) -> Tensor:
    """Clamps to the bounds. Integers stay integers: their bounds are truncated."""
    if not x.dtype.is_floating_point:
        min_val, max_val = int(min_val), int(max_val)
    return torch.clamp(x, min_val, max_val)


def hardtanh_backward(grad: Tensor, x: Tensor, min_val: float, max_val: float) -> Tensor:
    """Passes the gradient on strictly between the bounds, 0 elsewhere and where x is NaN."""
    return torch.where((x > min_val) & (x < max_val), grad, 0).to(promoted(grad, x))


@in_f32
def hardswish_backward(grad: Tensor, x: Tensor) -> Tensor:
    """Computes grad * (x / 3 + 0.5) between -3 and 3, 0 below and grad above; NaN where x is."""
    return torch.where(x <= -3, 0, torch.where(x >= 3, grad, grad * (x / 3 + 0.5)))


@in_f32
def tanh_backward(grad: Tensor, y: Tensor) -> Tensor:
    """Computes grad * (1 - y^2) from the result y."""
    return grad * (1 - y * y)


@in_f32
def sigmoid_backward(grad: Tensor, y: Tensor) -> Tensor:
    """Computes grad * (1 - y) * y from the result y."""
    return grad * (1 - y) * y


def threshold_backward(grad: Tensor, x: Tensor, threshold: float) -> Tensor:
    """Returns 0 where x is at most the threshold, else grad."""
    return torch.where(x <= threshold, 0, grad).to(promoted(grad, x))


def _log1p(x: Tensor) -> Tensor:
    return torch.log1p(x)


ACTIVATIONS = {
    aten.gelu.default: gelu,
    aten.gelu_backward.default: gelu_backward,
    aten.silu.default: silu,
    aten.silu_backward.default: silu_backward,
    aten.softplus.default: softplus,
    aten.softplus_backward.default: softplus_backward,
    aten.log_sigmoid_forward.default: log_sigmoid_pair,
    aten.mish.default: mish,
    aten.mish_backward.default: mish_backward,
    aten.hardsigmoid.default: hardsigmoid,
    aten.hardswish.default: hardswish,
    aten.elu.default: elu,
    aten.leaky_relu.default: leaky_relu,
    aten.hardtanh.default: hardtanh,
    aten.hardtanh_backward.default: hardtanh_backward,
    aten.hardswish_backward.default: hardswish_backward,
    aten.tanh_backward.default: tanh_backward,
    aten.sigmoid_backward.default: sigmoid_backward,
    aten.threshold_backward.default: threshold_backward,
}
