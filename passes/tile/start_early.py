"""lamina-start-early: starts kernels before the work in front of them has ended, where the call decides their grid."""

import math
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.core.sizes import Size, SizeLike, typical
from lamina.core.target import Target

from ..infra.base import Pass
from ..ir.reading import integer
from ..ir.sizes import size_on
from .variants import copied, stands_in

THREADS = 2048  # that an SM holds
_OFTEN = 8  # times the programs that run at once that a symbolic grid may have in the call that was traced, to be small in others


@dataclass(frozen=True)
class StartEarly(Pass):
    """Have a kernel of few programs start before the work in front of it has ended, where the call decides how many it has.

    Before: tile programs for a GPU. After: one with a symbolic grid that may be small comes twice: a copy for as many programs as
    run at once, with `tile.dependent` (see lamina-tile), and the kernel itself for more. Each launch of it becomes two, for ranges
    of the grid (`when`).

        "plan.launch"(%x, %y) {kernel = @relu, n_out = 1}
     -> "plan.launch"(%x, %y) {kernel = @relu_early, n_out = 1, when = [["s0~8", 2112]]}
        "plan.launch"(%x, %y) {kernel = @relu, n_out = 1, when = []}

    It runs after lamina-horizontal, which joins launches for all sizes alone. What stands in for kernels for ranges of sizes stays
    as it is.

    target  the machine
    """

    name: ClassVar[str] = "lamina-start-early"
    target: Target

    def run(self, module: ir.Module) -> None:
        """Copies the module's kernels that have a symbolic grid."""
        for op in list(module.body.operations):
            kernel = op.operation
            if "tile.grid" not in kernel.attributes or not isinstance(grid := size_on(kernel, "tile.grid"), Size):
                continue
            most = _at_once(kernel, self.target)
            if typical(grid) <= _OFTEN * most and not stands_in(module, kernel):
                (early,) = copied(module, kernel, ["early"], [[(grid, most)]])
                early.attributes["tile.dependent"] = ir.UnitAttr.get()


def mark_early(kernel: ir.Operation, target: Target) -> None:
    """Marks a kernel that starts early and waits by itself for the work before it (Hopper's programmatic dependent launch), as
    those do whose CTAs all run at once. Where CTAs follow each other, each of them would pay for the wait: 32768 of them take 43 us
    instead of 36 on an H200."""
    grid: SizeLike = size_on(kernel, "tile.grid")
    if isinstance(grid, int) and grid <= _at_once(kernel, target):
        kernel.attributes["tile.dependent"] = ir.UnitAttr.get()


def _at_once(kernel: ir.Operation, target: Target) -> int:
    """Returns how many of a kernel's programs run at once; -1 where it cannot start early."""
    if not target.is_gpu or target.gpu.capability < 90 or "tile.teams" not in kernel.attributes:
        return -1
    return target.gpu.sm_count * THREADS // math.prod(integer(kernel, f"tile.{key}") for key in ("threads", "teams", "cluster"))
