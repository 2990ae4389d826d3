"""lamina-start-early: starts kernels before the work in front of them has ended."""

import math
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.core.sizes import at_most, is_symbolic, typical
from lamina.core.target import Target

from ..infra.base import Pass
from ..ir.reading import integer
from ..ir.sizes import size_on
from .ranges.size_range import SizeRange, copies_for_ranges, stands_in
from .tile import TILED_LATER

THREADS = 2048  # that an SM holds
_OFTEN = 8  # times the programs that run at once that a symbolic grid may have in the call that was traced, to be small in others


@dataclass(frozen=True)
class StartEarly(Pass):
    """Start kernels whose programs all run at once before the work in front of them has ended.

    Such a kernel gets `tile.dependent`: it waits by itself for that work (Hopper's programmatic dependent launch). Where CTAs
    follow each other, each of them would pay for the wait: 32768 of them take 43 us instead of 36 on an H200.

    Before: tile programs for a GPU. After: those of few programs are marked. One whose call decides how many it has comes twice, if
    they may be few: a marked copy for as many as run at once, and the kernel itself for more. Each launch of it becomes two, for
    ranges of the grid (`when`), and what the call that was traced can do without is marked `tile.later`.

        "plan.launch"(%x, %y) {kernel = @relu, n_out = 1}
     -> "plan.launch"(%x, %y) {kernel = @relu_early, n_out = 1, when = [["s0~8", 2112]]}
        "plan.launch"(%x, %y) {kernel = @relu, n_out = 1, when = []}

    It runs after lamina-horizontal, which joins launches for all sizes alone, and whose kernels have the programs of all parts.
    What stands in for kernels for ranges of sizes stays as it is.

    target  the machine
    """

    name: ClassVar[str] = "lamina-start-early"
    target: Target

    def run(self, module: ir.Module) -> None:
        """Marks the module's kernels of few programs, and copies those that may have few."""
        for op in list(module.body.operations):
            kernel = op.operation
            if "tile.grid" not in kernel.attributes:
                continue
            grid, most = size_on(kernel, "tile.grid"), _at_once(kernel, self.target)
            early = []
            if at_most(grid, most):
                early = [kernel]
            elif is_symbolic(grid) and typical(grid) <= _OFTEN * most and not stands_in(module, kernel):
                few = SizeRange("early", ((grid, most),))
                early = copies_for_ranges(module, kernel, [few])
                (kernel if few.typical else early[0]).attributes[TILED_LATER] = ir.UnitAttr.get()
            for one in early:
                one.attributes["tile.dependent"] = ir.UnitAttr.get()


def _at_once(kernel: ir.Operation, target: Target) -> int:
    """Returns how many of a kernel's programs run at once; -1 if it cannot start early."""
    if not target.is_gpu or target.gpu.capability < 90 or "tile.teams" not in kernel.attributes:
        return -1
    return target.gpu.sm_count * THREADS // math.prod(integer(kernel, f"tile.{key}") for key in ("threads", "teams", "cluster"))
