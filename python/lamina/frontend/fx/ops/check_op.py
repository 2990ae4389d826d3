"""Defines `lamina.check`: truth values that must hold, an op of FX graphs that kernels compute (passes/simplify/import_ops.py)."""

from typing import Any

import torch
from torch import Tensor


@torch.library.custom_op("lamina::check", mutates_args=())
def check(ok: Tensor, message: str) -> Tensor:
    """Returns truth values. Kernels check the elements that they compute. Raises RuntimeError if one is false.

    What kernels compute, in torch's ops: for graphs that run without being compiled.
    """
    if not ok.all():
        raise RuntimeError(message)
    return ok.clone()


@check.register_fake
def _(ok: Tensor, message: str) -> Tensor:
    return torch.empty_like(ok)


CHECK: Any = torch.ops.lamina.check.default
