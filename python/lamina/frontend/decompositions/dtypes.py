"""Wraps torch's own decompositions whose results have another dtype than eager's."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table

from .half import promoted_dtype

aten = torch.ops.aten

_LIKE_ARGUMENT = {
    aten.huber_loss.default: 0,
    aten.soft_margin_loss.default: 0,
    aten.mse_loss_backward.default: 1,
    aten.smooth_l1_loss_backward.default: 1,
    aten.reflection_pad1d_backward.default: 1,
    aten.reflection_pad2d_backward.default: 1,
    aten.reflection_pad3d_backward.default: 1,
}
"""The index of the argument whose dtype the result has."""


def _typed(op: Any, dtype: Callable[..., torch.dtype]) -> Callable[..., Tensor]:
    decomposition = decomposition_table[op]

    @wraps(decomposition)
    def run(*args: Any, **kwargs: Any) -> Any:
        """Converts the decomposition's result to eager's dtype."""
        out = decomposition(*args, **kwargs)
        return out.to(dtype(*args)) if isinstance(out, Tensor) else out

    return run


def _like(i: int) -> Callable[..., torch.dtype]:
    def dtype(*args: Any) -> torch.dtype:
        """Returns the dtype of argument `i`."""
        return args[i].dtype

    return dtype


def index_fill(x: Tensor, dim: int, index: Tensor, value: Tensor) -> Tensor:
    """Decomposes index_fill by torch's function, which needs a value of the tensor's dtype."""
    return decomposition_table[aten.index_fill.int_Tensor](x, dim, index, value.to(x.dtype))


def cat(parts: list[Tensor], dim: int = 0) -> Any:
    """Converts tensors of several dtypes to the one of the result."""
    dtype = promoted_dtype(*parts)
    if all(t.dtype is dtype for t in parts):
        return NotImplemented
    return aten.cat.default([t.to(dtype) for t in parts], dim)


def _softmax_backward(op: Any) -> Callable[..., Tensor]:
    """Wraps a softmax gradient: on a CPU, eager's op returns the dtype of its incoming gradient."""
    decomposition = decomposition_table[op]

    def run(grad: Tensor, out: Tensor, dim: int, dtype: torch.dtype) -> Any:
        """Ignores the requested dtype on CPUs, as eager does."""
        return decomposition(grad, out, dim, grad.dtype if grad.device.type == "cpu" else dtype)

    return run


TYPES: dict[Any, Callable[..., Any]] = {op: _typed(op, _like(i)) for op, i in _LIKE_ARGUMENT.items()} | {
    aten.addr.default: _typed(
        aten.addr.default, lambda x, a, b: torch.promote_types(x.dtype, torch.promote_types(a.dtype, b.dtype))
    ),
    aten.threshold_backward.default: _typed(aten.threshold_backward.default, lambda grad, x, threshold: promoted_dtype(grad, x)),
    aten.index_fill.int_Tensor: index_fill,
    aten.cat.default: cat,
    **{op: _softmax_backward(op) for op in (aten._softmax_backward_data.default, aten._log_softmax_backward_data.default)},
    aten.block_diag.default: _typed(aten.block_diag.default, lambda blocks: promoted_dtype(*blocks)),
}
