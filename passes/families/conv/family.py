"""The family of direct convolutions: depthwise ones that need no measurement. Others are candidates of the GEMM family."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.target import Target

from ...space.contraction import Unfit
from ..choice import DIRECT, Choice
from ..problem import CallProblem, Family
from ..surroundings import calls
from .depthwise import GroupedConvolution, replace_by_direct


@dataclass(frozen=True)
class DirectProblem(CallProblem):
    """A convolution that is direct by default."""

    def default(self, gpu: Gpu | None) -> Choice:
        """Returns direct convolution."""
        return DIRECT

    def take(self, choice: Choice, target: Target | None) -> None:
        """Replaces the call, fused with its reader where possible."""
        if choice != DIRECT or not replace_by_direct(self.op):
            raise Unfit("no schedule of a depthwise convolution, which is computed directly")


class DirectFamily(Family):
    """Convolutions that are direct by default."""

    computes = "depthwise convolutions of f16, bf16 and f32"

    def reads(self, op: ir.Operation) -> bool:
        """Returns whether this is a convolution that is direct by default."""
        found = GroupedConvolution.read(op)
        return found is not None and found.is_direct_by_default

    def problems(self, module: ir.Module) -> Iterator[DirectProblem]:
        """Yields a problem for each call."""
        for op in calls(module, symbolic=True):
            if self.reads(op):
                yield DirectProblem(op)
