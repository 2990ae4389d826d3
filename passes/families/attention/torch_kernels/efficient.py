"""The memory-efficient attention on GPUs, of xFormers."""

from collections.abc import Sequence
from typing import Any

import torch

from lamina.core.dtypes import HALF

from .kernel import Case, TorchKernel, TorchKernelOperands

_ALIGNED = 16  # bytes that heads are a multiple of


class EfficientKernel(TorchKernel):
    """_scaled_dot_product_efficient_attention."""

    name, callee, results = "efficient", "_scaled_dot_product_efficient_attention", 4
    repeats_heads, expands_mask, sums_multiple, heads_side_by_side, result_side_by_side = True, True, 32, (True, True), True

    def is_allowed(self) -> bool:
        """Returns whether torch's settings allow the kernel."""
        return torch.backends.cuda.mem_efficient_sdp_enabled()

    def computes(self, case: Case, capability: int | None) -> bool:
        """Returns whether heads are multiples of 16 bytes."""
        unit = _ALIGNED // (2 if case.dtype in HALF else 4)
        return capability is not None and case.dtype in (*HALF, "f32") and case.size % unit == case.values % unit == 0

    def arguments(self, operands: TorchKernelOperands) -> Sequence[Any]:
        """Returns the mask, whether the log-sum-exps are computed, dropout and causal."""
        return [operands.mask, operands.sums, 0.0, operands.causal]

    def gradient_arguments(self, operands: TorchKernelOperands) -> Sequence[Any]:
        """Returns the mask, the forward pass's results, dropout's state, dropout, the gradients to compute, and causal."""
        return [
            operands.mask,
            operands.out,
            operands.sums,
            *operands.seeds,
            0.0,
            [True, True, True, operands.trains],
            operands.causal,
        ]
