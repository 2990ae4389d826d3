"""Decomposes negative log likelihood into comparisons and gathers, and losses that torch's table, which covers the others, computes
wrongly or inexactly."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..half import in_compute_dtype
from .index import position

aten = torch.ops.aten

_NONE, _MEAN, _SUM = 0, 1, 2


def _weights(like: Tensor, target: Tensor, safe: Tensor, weight: Tensor | None, ignore: int) -> Tensor:
    """Returns the weight of every target: 0 where ignored."""
    keep = target != ignore
    if weight is None:
        return keep.to(like.dtype)
    gathered = in_compute_dtype(weight).index_select(0, safe.reshape(-1)).reshape(safe.shape)
    return torch.where(keep, gathered, 0.0)


def nll_forward(x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore: int) -> tuple[Tensor, Tensor]:
    """Returns the loss and the sum of the weights. x: [C], [N, C] or [N, C, H, W]; target: the same without C."""
    channel = 0 if x.dim() == 1 else 1
    wide = in_compute_dtype(x)
    if x.dim() == 1 and target.dim() == 1:
        target = target.reshape(())
    safe = torch.where(target != ignore, target, 0)
    picked = -wide.gather(channel, safe.unsqueeze(channel)).squeeze(channel)
    if weight is None:
        loss = torch.where(target != ignore, picked, 0.0)
    else:
        loss = torch.where(target != ignore, picked * _weights(wide, target, safe, weight, ignore), 0.0)
    if reduction == _NONE and x.dim() > 1:
        return loss.to(x.dtype), x.new_zeros(())
    total = _weights(wide, target, safe, weight, ignore).sum()
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
    slope = in_compute_dtype(grad)
    if x.dim() == 1:  # one sample: as in eager, the first target and the only gradient count, whatever their shapes
        target, slope = target.reshape(-1)[0], slope.reshape(())
    if reduction == _MEAN:
        slope = slope / in_compute_dtype(total_weight)
    safe = torch.where(target != ignore, target, 0)
    per_target = -slope * _weights(in_compute_dtype(x), target, safe, weight, ignore)
    per_target = torch.where(target != ignore, per_target, 0.0)
    return torch.where(position(x, channel) == safe.unsqueeze(channel), per_target.unsqueeze(channel), 0.0).to(x.dtype)


def multilabel_margin(x: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    """Sums the margins by which classes outrank targets, of which a row has those in front of its first -1. torch's decomposition
    counts the others, too. Returns the loss and whether each class is a target, as numbers."""
    rows, wanted = (t if t.dim() == 2 else t.reshape(1, -1) for t in (in_compute_dtype(x), target))
    given, is_target = _targets(wanted)
    margins, counted = _margins(rows, wanted, given, is_target)
    loss = torch.where(counted, torch.clamp(margins, min=0), 0.0).sum((1, 2)) / rows.shape[1]
    flags = is_target.to(x.dtype).reshape(x.shape)
    if reduction == _NONE:
        return loss.to(x.dtype).reshape(x.shape[:-1]), flags
    return (loss.mean() if reduction == _MEAN else loss.sum()).to(x.dtype), flags


def _targets(wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Returns which elements of rows of targets count, and which classes they name."""
    classes = position(wanted, 1)
    given = classes < torch.where(wanted == -1, classes, wanted.shape[1]).amin(1, True)
    return given, (given.unsqueeze(2) & (wanted.unsqueeze(2) == classes.unsqueeze(0))).any(1)


def _margins(rows: Tensor, wanted: Tensor, given: Tensor, is_target: Tensor) -> tuple[Tensor, Tensor]:
    """Returns 1 less what each target (the second dimension) outranks each class by (the third), and which of these count."""
    picked = rows.gather(1, torch.where(given, wanted, 0))
    return 1 - picked.unsqueeze(2) + rows.unsqueeze(1), given.unsqueeze(2) & ~is_target.unsqueeze(1)


def multilabel_margin_backward(grad: Tensor, x: Tensor, target: Tensor, reduction: int, flags: Tensor) -> Tensor:
    """Counts for each class the targets within its margin, and for each target the classes; takes these from the target's class."""
    rows, wanted, is_target = (t if t.dim() == 2 else t.reshape(1, -1) for t in (in_compute_dtype(x), target, flags != 0))
    given, _ = _targets(wanted)
    margins, counted = _margins(rows, wanted, given, is_target)
    within = (counted & (margins > 0)).to(rows.dtype)
    names = given.unsqueeze(2) & (wanted.unsqueeze(2) == position(rows, 1).unsqueeze(0))
    taken = torch.where(names, within.sum(2, True), 0.0).sum(1)
    slope = in_compute_dtype(grad).reshape(-1, 1) / (rows.numel() if reduction == _MEAN else rows.shape[1])
    return ((within.sum(1) - taken) * slope).to(x.dtype).reshape(x.shape)


def soft_margin_backward(grad: Tensor, x: Tensor, target: Tensor, reduction: int = _MEAN) -> Tensor:
    """Computes -grad * target * sigmoid(-target * x): torch's decomposition subtracts 1 from a sigmoid next to it."""
    slope, label = in_compute_dtype(grad), in_compute_dtype(target)
    out = -slope * label * torch.sigmoid(-label * in_compute_dtype(x))
    return (out / x.numel() if reduction == _MEAN else out).to(x.dtype)


LOSSES: dict[Any, Callable[..., Any]] = {
    aten.nll_loss_forward.default: nll_forward,
    aten.nll_loss2d_forward.default: nll_forward,
    aten.nll_loss_backward.default: nll_backward,
    aten.nll_loss2d_backward.default: nll_backward,
    aten.soft_margin_loss_backward.default: soft_margin_backward,
    aten.multilabel_margin_loss_forward.default: multilabel_margin,
    aten.multilabel_margin_loss_backward.default: multilabel_margin_backward,
}
