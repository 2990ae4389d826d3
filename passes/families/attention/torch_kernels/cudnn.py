"""cuDNN's attention."""

import os
from collections.abc import Sequence
from typing import Any

import torch

from lamina.core.dtypes import HALF
from lamina.core.sizes import below, typical

from .kernel import Case, TorchKernel, TorchKernelOperands

_LONGEST = 128  # elements of a head
_MOST = 65535  # batches and heads
_PREFERRED = 91500  # torch prefers cuDNN's attention from later versions on


class CudnnKernel(TorchKernel):
    """_scaled_dot_product_cudnn_attention."""

    name, callee, results = "cudnn", "_scaled_dot_product_cudnn_attention", 9
    sums_as_column, like_query, keeps_dropout = True, True, True

    def is_allowed(self) -> bool:
        """Returns whether torch's settings allow the kernel, and torch prefers it or has nothing else."""
        cuda = torch.backends.cuda
        version = torch.backends.cudnn.version()
        refused = torch.are_deterministic_algorithms_enabled() or os.environ.get("TORCH_CUDNN_SDPA_DEPRIORITIZED") == "1"
        is_preferred = not refused and (version is None or version > _PREFERRED)
        return cuda.cudnn_sdp_enabled() and (is_preferred or not cuda.math_sdp_enabled())

    def computes(self, case: Case, capability: int | None) -> bool:
        """Returns whether heads are short multiples of 8 elements, in a half type, and the mask needs no gradient."""
        batch, heads, _, keys = case.scores
        aligned = case.size % 8 == case.values % 8 == 0 and max(typical(batch), typical(heads)) <= _MOST
        sizes = max(case.size, case.values) <= _LONGEST or (case.size, case.values) == (192, 128)
        return capability is not None and case.dtype in HALF and aligned and sizes and below(1, keys) and not case.trains_mask

    def arguments(self, operands: TorchKernelOperands) -> Sequence[Any]:
        """Returns the mask, whether the log-sum-exps are computed, dropout, causal, and no mask of what was dropped."""
        return [operands.mask, operands.sums, 0.0, operands.causal, False]

    def gradient_arguments(self, operands: TorchKernelOperands) -> Sequence[Any]:
        """Returns the forward pass's results, dropout's state, the mask, no sequences' ends, the lengths, dropout and causal."""
        return [operands.out, operands.sums, *operands.seeds, operands.mask, None, None, *operands.lengths, 0.0, operands.causal]
