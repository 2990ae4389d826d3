"""Defines `lamina.sort`: integers in ascending order, an op of FX graphs that kernels compute (passes/simplify/import_ops.py)."""

from typing import Any

import torch
from torch import Tensor


@torch.library.custom_op("lamina::sort", mutates_args=())
def sort(x: Tensor, dim: int) -> Tensor:
    """Sorts along a dimension. What kernels compute, in torch's ops: for graphs that run without being compiled."""
    return torch.sort(x, dim).values.contiguous()


@sort.register_fake
def _(x: Tensor, dim: int) -> Tensor:
    return x.new_empty(x.shape)


SORT: Any = torch.ops.lamina.sort.default
