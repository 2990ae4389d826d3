"""Defines `lamina.scan`: an inclusive scan, an op of FX graphs that kernels compute (passes/simplify/import_ops.py).

Sums, products and running extrema are scans by one associative operation. With a factor for each step, a scan of sums is the
linear recurrence r[i] = decay[i] * r[i - 1] + x[i].
"""

from typing import Any

import torch
from torch import Tensor


@torch.library.custom_op("lamina::scan", mutates_args=())
def scan(x: Tensor, decay: Tensor | None, dim: int, reduce: str) -> Tensor:
    """Scans along a dimension by "sum", "prod", "amax", "amin" or, for f32, "logsumexp", in the dtype of `x`.

    decay: the factors of a recurrence of sums.

    What kernels compute, in torch's ops: for graphs that run without being compiled.
    """
    if decay is not None:
        steps = list[Tensor]()
        for at, by in zip(x.unbind(dim), decay.unbind(dim), strict=True):
            steps.append(steps[-1] * by + at if steps else at)
        return torch.stack(steps, dim) if steps else x.clone()
    if reduce == "logsumexp":
        return torch.logcumsumexp(x, dim)
    if reduce in ("sum", "prod"):
        return (torch.cumsum if reduce == "sum" else torch.cumprod)(x, dim, dtype=x.dtype)
    return (torch.cummax if reduce == "amax" else torch.cummin)(x, dim).values


@scan.register_fake
def _(x: Tensor, decay: Tensor | None, dim: int, reduce: str) -> Tensor:
    return x.new_empty(x.shape)


SCAN: Any = torch.ops.lamina.scan.default
