"""Decomposes negative log likelihood into comparisons and gathers; torch's table covers the other losses."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..half import wide
from .index import position

aten = torch.ops.aten

_NONE, _MEAN, _SUM = 0, 1, 2


def _weights(like: Tensor, target: Tensor, safe: Tensor, weight: Tensor | None, ignore: int) -> Tensor:
    """Returns the weight of every target: 0 where ignored."""
    keep = target != ignore
    if weight is None:
        return keep.to(like.dtype)
    gathered = wide(weight).index_select(0, safe.reshape(-1)).reshape(safe.shape)
    return torch.where(keep, gathered, 0.0)


def nll_forward(x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore: int) -> tuple[Tensor, Tensor]:
    """Returns the loss and the sum of the weights. x: [C], [N, C] or [N, C, H, W]; target: the same without C."""
    channel = 0 if x.dim() == 1 else 1
    w = wide(x)
    if x.dim() == 1 and target.dim() == 1:
        target = target.reshape(())
    safe = torch.where(target != ignore, target, 0)
    picked = -w.gather(channel, safe.unsqueeze(channel)).squeeze(channel)
    if weight is None:
        loss = torch.where(target != ignore, picked, 0.0)
    else:
        loss = torch.where(target != ignore, picked * _weights(w, target, safe, weight, ignore), 0.0)
    if reduction == _NONE and x.dim() > 1:
        return loss.to(x.dtype), x.new_zeros(())
    total = _weights(w, target, safe, weight, ignore).sum()
    if reduction != _NONE:
        loss = loss.sum()
    if reduction == _MEAN:
        loss = loss / total
    return loss.to(x.dtype), total.to(x.dtype)


def nll_backward(
    grad: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore: int, total_weight: Tensor
) -> Tensor:
    """Computes -grad * weight at the target's class and 0 elsewhere, by comparing class numbers with the target."""
    channel = 0 if x.dim() == 1 else 1
    g = wide(grad)
    if x.dim() == 1:  # one sample: as in eager, the first target and the only gradient count, whatever their shapes
        target, g = target.reshape(-1)[0], g.reshape(())
    if reduction == _MEAN:
        g = g / wide(total_weight)
    safe = torch.where(target != ignore, target, 0)
    per_target = -g * _weights(wide(x), target, safe, weight, ignore)
    per_target = torch.where(target != ignore, per_target, 0.0)
    return torch.where(position(x, channel) == safe.unsqueeze(channel), per_target.unsqueeze(channel), 0.0).to(x.dtype)


LOSSES: dict[Any, Callable[..., Any]] = {
    aten.nll_loss_forward.default: nll_forward,
    aten.nll_loss2d_forward.default: nll_forward,
    aten.nll_loss_backward.default: nll_backward,
    aten.nll_loss2d_backward.default: nll_backward,
}
