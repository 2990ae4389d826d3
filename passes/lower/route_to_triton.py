"""lamina-route-to-triton: marks tile programs for compilation by Triton."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.schedules.contraction import GemmConfig

from ..infra.base import Pass
from ..ir.reading import integer, name_of, nested, ops_in
from ..ir.sizes import size_attribute, size_on
from . import gpu_math
from .expand_math import ExpandMath

_THREADS_ALONE = ("tile.pack", "tile.cluster", "tile.teams", "tile.dependent", "tile.shared")
WARP = 32
_KNOWN = {f"math.{name}" for name in "absf absi ceil cos erf exp exp2 floor fma log log2 rsqrt sin sqrt tan tanh".split()}
_KNOWN_F64 = _KNOWN - {"math.erf", "math.tanh"}


@dataclass(frozen=True)
class RouteToTriton(Pass):
    """Have tile programs for GPUs printed as Triton kernels and compiled by Triton, not spread over threads by lamina-distribute.

    They are the programs that lamina-tile has made, as text that a person can read, run and change (`--emit=triton`). Matrix
    products are routed to Triton in any case.

    kernels  names of functions, separated by commas; empty for all
    warps    of a CTA; 0: as many as lamina-tile gave the program

    Math functions that Triton lacks are expanded, as lamina-expand-math does for GPUs.

    Before: functions with `tile.threads`, `tile.vec`, ... After: they have `tile.triton`, the schedule in Triton's words, and
    `tile.ctas`; one CTA runs each program.
    """

    name: ClassVar[str] = "lamina-route-to-triton"
    kernels: str = ""
    warps: int = 0

    def run(self, module: ir.Module) -> None:
        """Marks the chosen functions. Raises CompileError for a name that is not a tile program for a GPU."""
        programs = {name_of(o): o.operation for o in module.body.operations if "tile.threads" in o.attributes}
        wanted = [name for name in self.kernels.split(",") if name] or list(programs)
        for name in wanted:
            if name not in programs:
                known = ", ".join(programs) or "none"
                raise CompileError(f"there is no tile program @{name} for a GPU", remedy=f"there are {known}")
            if "tile.triton" not in programs[name].attributes:
                route(programs[name], self.warps)


def route(function: ir.Operation, warps: int = 0, stages: int = 1) -> None:
    """Marks one tile program for Triton and expands the math functions that Triton lacks. warps: 0 for as many as the program
    has; stages: blocks that its loops have in flight (software pipelining)."""
    parts = ops_in(function.regions[0].blocks[0], "tile.part")
    ctas = sum(size_on(p, "tile.grid") for p in parts or [function])
    warps = warps or max(1, integer((parts or [function])[0], "tile.threads") // WARP)
    GemmConfig(warps=warps).check()
    _expand(function)
    for name in _THREADS_ALONE:
        if name in function.attributes:
            del function.attributes[name]
    function.attributes["tile.triton"] = ir.StringAttr.get(f"triton{{warps={warps} stages={stages}}}")
    for name, value in (("tile.grid", ctas), ("tile.ctas", ctas), ("tile.threads", warps * WARP)):
        function.attributes[name] = size_attribute(value)


def _expand(function: ir.Operation) -> None:
    """Expands the math functions that Triton lacks."""
    for op in nested(function):
        if op.name.startswith("math.") and op.name not in (_KNOWN_F64 if "f64" in str(op.results[0].type) else _KNOWN):
            ExpandMath(target="nvvm").expand(op, gpu_math.F32, gpu_math.F64)
