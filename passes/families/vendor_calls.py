"""lamina-vendor-calls: turns calls of Lamina's own ops (attention) that no kernel of Lamina computes into calls of vendors'
routines."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.core.target import Target

from ..infra.base import Pass
from .select import FAMILIES


@dataclass(frozen=True)
class VendorCalls(Pass):
    """Turn calls of Lamina's ops that are left into calls of a vendor's routines, on operands in the form that these take.

    Before: what lamina-select-kernels left. After: no call of an op of Lamina's, but those that no vendor's routine computes: they
    become fallbacks, the op's reference implementation in torch.

    target  what the program is for; a CPU by default
    """

    name: ClassVar[str] = "lamina-vendor-calls"
    target: Target | None = None

    def run(self, module: ir.Module) -> None:
        """Asks each family for its calls."""
        for family in FAMILIES:
            family.hand_over(module, self.target)
