"""torch's flash attention on CPUs, which the settings of the one on GPUs allow."""

from collections.abc import Sequence
from typing import Any, ClassVar

from lamina.core.dtypes import HALF

from .flash import FlashKernel
from .kernel import Case, TorchKernelOperands


class CpuKernel(FlashKernel):
    """_scaled_dot_product_flash_attention_for_cpu."""

    callee, results, head_multiple = "_scaled_dot_product_flash_attention_for_cpu", 2, 1
    seeds: ClassVar[Sequence[Sequence[int]]] = ()
    sums_heads_innermost, heads_side_by_side = True, (False, True)

    def computes(self, case: Case, capability: int | None) -> bool:
        """Returns whether the heads of keys and values have one size, in any float dtype, and the mask needs no gradient."""
        known = case.dtype in (*HALF, "f32", "f64") and case.size == case.values and not case.trains_mask
        return capability is None and known

    def arguments(self, operands: TorchKernelOperands) -> Sequence[Any]:
        """Returns dropout and causal."""
        return [0.0, operands.causal]

    def gradient_arguments(self, operands: TorchKernelOperands) -> Sequence[Any]:
        """Returns the forward pass's results, dropout and causal."""
        return [operands.out, operands.sums, 0.0, operands.causal]

    def named(self, operands: TorchKernelOperands) -> dict[str, Any]:
        """Returns the mask."""
        return {} if operands.mask is None else {"attn_mask": operands.mask}
