"""Decomposes activations and gradients of which torch's own decompositions have another dtype or another result for NaN."""

import torch
from torch import Tensor

from ..half import in_f32, promoted

aten = torch.ops.aten


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


ACTIVATIONS = {
    aten.hardtanh.default: hardtanh,
    aten.hardtanh_backward.default: hardtanh_backward,
    aten.hardswish_backward.default: hardswish_backward,
}
