"""Decomposes the normalizations.

Statistics are f32 (f64 for f64) in two passes; those of long rows and of BatchNorm in training are moments (see moments.py).
Results are laid out as eager's.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch._prims_common import suggest_memory_format

from ..half import in_compute_dtype, wide_dtype
from ..undecided import greater
from .moments import count, is_long, moments, on_cpu

aten = torch.ops.aten


def _normalize(w: Tensor, dims: Sequence[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Returns (w - mean) * rstd, mean and rstd over `dims`, which are kept with length 1."""
    n = count(w, dims)
    if is_long(w, dims):
        found = moments(w, dims)
        mean = found.mean.to(w.dtype)
        d, variance = w - mean, found.squares.to(w.dtype) / n
    else:
        mean = w.sum(list(dims), True) / n
        d = w - mean
        variance = (d * d).sum(list(dims), True) / n
    rstd = torch.rsqrt(variance + eps)
    return d * rstd, mean, rstd


def _statistics(x: Tensor, *parameters: Tensor | None) -> torch.dtype:
    """Returns the dtype of the saved mean and rstd, as the device's own kernel has it: on a CPU that of the parameters, if any."""
    given = next((p.dtype for p in parameters if p is not None), x.dtype)
    return given if on_cpu(x) else wide_dtype(x.dtype)


def layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalizes over the last dimensions. Returns the result, the mean and rstd."""
    dims = list(range(x.dim() - len(shape), x.dim()))
    y, mean, rstd = _normalize(in_compute_dtype(x), dims, eps)
    if weight is not None:
        y = y * in_compute_dtype(weight)
    if bias is not None:
        y = y + in_compute_dtype(bias)
    saved = _statistics(x, weight, bias)
    return y.to(x.dtype).contiguous(), mean.to(saved), rstd.to(saved)


def group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, n: int, c: int, hxw: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalizes over groups of channels. Returns the result, and the mean and rstd as (n, group)."""
    # On a GPU dimensions are not merged: an image may lie with its channels last, where a merged row has no order of its own.
    rows = (
        in_compute_dtype(x).reshape(n, group, c // group * hxw)
        if on_cpu(x)
        else in_compute_dtype(x).reshape(n, group, c // group, *x.shape[2:])
    )
    y, mean, rstd = _normalize(rows, list(range(2, rows.dim())), eps)
    layout = suggest_memory_format(x) if on_cpu(x) else torch.contiguous_format
    y = _affine(y.reshape(x.shape), x, weight, bias).contiguous(memory_format=layout)
    saved = _statistics(x, weight, bias)
    return y, mean.reshape(n, group).to(saved), rstd.reshape(n, group).to(saved)


def rms_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """Normalizes by the root mean square over the last dimensions: C++'s decomposition would add in place."""
    return decomposition_table[aten._fused_rms_norm.default](x, shape, weight, eps)[0]


def _per_channel(v: Tensor, x: Tensor) -> Tensor:
    return in_compute_dtype(v).view([1, v.shape[0]] + [1] * (x.dim() - 2))


def _affine(y: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    if weight is not None:
        y = y * _per_channel(weight, x)
    if bias is not None:
        y = y + _per_channel(bias, x)
    return y.to(x.dtype)


def batch_norm_inference(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes (x - mean) / sqrt(var + eps) * weight + bias with the running statistics."""
    y = (in_compute_dtype(x) - _per_channel(running_mean, x)) * torch.rsqrt(_per_channel(running_var, x) + eps)
    out = _affine(y, x, weight, bias)
    if on_cpu(x):
        none = x.new_zeros((0,), dtype=_statistics(x, weight, bias, running_mean))
        return out, none, none.clone()
    return out, running_mean.clone(), torch.rsqrt(running_var + eps)


def batch_norm_training(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """Returns the result, the saved mean and rstd, and the new running statistics (with the unbiased variance)."""
    dims = [0, *range(2, x.dim())]
    size = x.numel() // x.shape[1]
    wide = in_compute_dtype(x)
    found = moments(x, dims)
    mean, var = found.mean, found.squares / size
    rstd = torch.rsqrt(var.to(wide.dtype) + eps)
    out = _affine((wide - mean.to(wide.dtype)) * rstd, x, weight, bias)
    flat_mean, flat_var, flat_rstd = (t.reshape(-1) for t in (mean, var, rstd))
    new_mean = new_var = None
    if running_mean is not None:
        new_mean = (momentum * flat_mean + (1 - momentum) * running_mean).to(running_mean.dtype)
    if running_var is not None:
        new_var = (momentum * (flat_var * (size / greater(size - 1, 1))) + (1 - momentum) * running_var).to(running_var.dtype)
    saved = _statistics(x, weight, bias, running_mean)
    return out, flat_mean.to(saved), flat_rstd.to(saved), new_mean, new_var


def batch_norm_functional(
    x: Tensor, weight: Tensor, bias: Tensor, running_mean: Tensor, running_var: Tensor, training: bool, *how: float
) -> Any:
    """Returns the result, the saved mean and rstd, and the running statistics: new ones in training, copies otherwise.

    how  momentum and eps
    """
    if training:
        return batch_norm_training(x, weight, bias, running_mean, running_var, *how)
    return *batch_norm_inference(x, weight, bias, running_mean, running_var, *how), running_mean.clone(), running_var.clone()


def batch_norm_no_stats(x: Tensor, weight: Tensor | None, bias: Tensor | None, training: bool, *how: float) -> Any:
    """Normalizes by the batch's own statistics, in evaluation too. Returns the result, the mean and rstd."""
    return batch_norm_training(x, weight, bias, None, None, *how)[:3]


def batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    *how: float,
) -> Any:
    """Decomposes the overload of graphs without gradients.

    NotImplemented in training with running statistics: eager's op writes to them.
    """
    if running_mean is None or running_var is None:
        return batch_norm_no_stats(x, weight, bias, training, *how)
    return NotImplemented if training else batch_norm_inference(x, weight, bias, running_mean, running_var, *how)


def instance_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    """Normalizes each channel of each image.

    torch decomposes it into one batch norm over the channels of all images; the merged dimension keeps the result from being
    channels-last. NotImplemented with running statistics.
    """
    if not use_input_stats or running_mean is not None or running_var is not None:
        return NotImplemented
    dims = list(range(2, x.dim()))
    w = in_compute_dtype(x)
    found = moments(x, dims)
    variance = (found.squares / count(x, dims)).to(w.dtype)
    return _affine((w - found.mean.to(w.dtype)) * torch.rsqrt(variance + eps), x, weight, bias)


def batch_norm_with_update(x: Tensor, *args: Any) -> Any:
    """Decomposes it on a CPU. On a GPU the backward pass reads cuDNN's `reserve`, so the op stays."""
    if not on_cpu(x):
        return NotImplemented
    out, mean, rstd, new_mean, new_var = batch_norm_training(x, *args)
    return out, mean, rstd, x.new_zeros((0,), dtype=torch.uint8), new_mean, new_var


def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Any:
    """Scales v to have the norms g along `dim`. Returns the result and v's own norms. NotImplemented for other shapes of g."""
    if g.dim() != v.dim():
        return NotImplemented
    wide = in_compute_dtype(v)
    norm = (wide * wide).sum([i for i in range(v.dim()) if i != dim], True).sqrt()
    return (wide * (in_compute_dtype(g) / norm)).to(v.dtype), norm.to(wide_dtype(g.dtype))


def weight_norm_alone(v: Tensor, g: Tensor, dim: int = 0) -> Any:
    """Scales v to have the norms g along `dim`. NotImplemented for other shapes of g."""
    made = weight_norm(v, g, dim)
    return made if made is NotImplemented else made[0]


def weight_norm_backward(grad: Tensor, v: Tensor, g: Tensor, norm: Tensor, dim: int) -> Any:
    """Returns the gradients of v and g, where v was scaled to have the norms g along `dim`."""
    if g.dim() != v.dim():
        return NotImplemented
    others = [i for i in range(v.dim()) if i != dim]
    slope, direction = in_compute_dtype(grad), in_compute_dtype(v) / norm
    along = (slope * direction).sum(others, True)
    return ((slope - direction * along) * (in_compute_dtype(g) / norm)).to(v.dtype), along.to(g.dtype)


NORMS: dict[Any, Callable[..., Any]] = {
    aten.native_layer_norm.default: layer_norm,
    aten.native_group_norm.default: group_norm,
    aten.rms_norm.default: rms_norm,
    aten._native_batch_norm_legit_no_training.default: batch_norm_inference,
    aten._native_batch_norm_legit_functional.default: batch_norm_functional,
    aten._batch_norm_with_update_functional.default: batch_norm_with_update,
    aten._native_batch_norm_legit.no_stats: batch_norm_no_stats,
    aten.native_batch_norm.default: batch_norm,
    aten.instance_norm.default: instance_norm,
    aten._weight_norm.default: weight_norm_alone,
    aten._weight_norm_interface.default: weight_norm,
    aten._weight_norm_interface_backward.default: weight_norm_backward,
}
