"""Flash attention on GPUs."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from lamina.core.dtypes import HALF

from .kernel import Case, TorchKernel, TorchKernelOperands

_LONGEST = 256  # elements of a head
_SHORT_BACKWARD = (86, 89, 120, 121)  # GPUs whose shared memory is too small for the gradients of some sizes


class FlashKernel(TorchKernel):
    """_scaled_dot_product_flash_attention."""

    name, callee, results, head_multiple, keeps_dropout = "flash", "_scaled_dot_product_flash_attention", 9, 8, True
    seeds: ClassVar[Sequence[Sequence[int]]] = ((2,), ())

    def is_allowed(self) -> bool:
        """Returns whether torch's settings allow the kernel."""
        return torch.backends.cuda.flash_sdp_enabled()

    def computes(self, case: Case, capability: int | None) -> bool:
        """Returns whether there is no mask, and causal attention has as many queries as keys, in a half type."""
        _, _, queries, keys = case.scores
        sizes = case.size == case.values <= _LONGEST
        if case.backward and capability in _SHORT_BACKWARD:
            sizes &= not 192 < case.size <= 224
        plain = not case.masked and (not case.causal or queries == keys)
        return capability is not None and case.dtype in HALF and sizes and plain

    def arguments(self, operands: TorchKernelOperands) -> Sequence[Any]:
        """Returns dropout, causal, and no mask of what was dropped."""
        return [0.0, operands.causal, False]

    def gradient_arguments(self, operands: TorchKernelOperands) -> Sequence[Any]:
        """Returns the forward pass's results, no sequences' ends, the lengths, dropout, causal, and dropout's state."""
        return [operands.out, operands.sums, None, None, *operands.lengths, 0.0, operands.causal, *operands.seeds]
