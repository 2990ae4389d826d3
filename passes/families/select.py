"""lamina-select-kernels: replaces library calls of hot ops, and pointwise ops around them, by Lamina's kernels.

The choice for each call is its attribute `graph.choice`, which tuning writes, or else the cost model's default.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.target import Target

from ..infra.base import Pass
from ..ir.locations import where
from ..space.contraction import Unfit
from .attention.family import AttentionFamily
from .choice import LIBRARY, Choice
from .conv.family import DirectFamily
from .custom.epilogue import fuse_epilogues
from .custom.family import CustomFamily
from .gemm.family import GemmFamily
from .grouped_products import GroupedFamily
from .problem import Family, Problem
from .surroundings import calls, has_symbolic_sizes, kernels
from .vendor.registry import ROUTINES
from .vendor.routine import Routine, VendorCall, VendorSchedule, covers_epilogue, replace_by_call

FAMILIES: tuple[Family, ...] = (AttentionFamily(), GroupedFamily(), GemmFamily(), DirectFamily(), CustomFamily())
"""All families, in the order in which their problems are decided."""
_SCHEDULES = tuple(dict.fromkeys([*(kind for family in FAMILIES for kind in family.schedules), VendorSchedule]))


@dataclass(frozen=True)
class SelectKernels(Pass):
    """Turn calls of hot ops into Lamina's kernels if `graph.choice` on the call or, without it, the cost model selects one.

    Before: @main holds groups and externs. After: every product whose choice is a schedule (schedules/contraction.py) is a group,
    together with its only reader if that is a group: the epilogue is computed in registers. Two products with the same left operand
    and the same reader, like gate and up of SwiGLU, become one group with it, and so do gate and up that are the column halves of
    one product. lamina-tile turns a group with a schedule into a program over tiles of the result. Calls whose family has kernels
    in source become one graph.kernel or several. Attention calls that stay are lowered by lamina-vendor-calls.

    A call whose choice is "library" stays, and so does a call without a choice if the cost model prefers the library. Other choices
    and cases:

    - "first SCHEDULE": of two products with the same reader, only the first becomes Lamina's kernel; the other stays.
    - "prologue SCHEDULE": groups that only compute an operand of the product are fused into its kernel, on blocks that it loads.
    - Row sums in the epilogue: the kernel yields f32 partial sums over blocks of columns, and a second group adds them. Column
      sums, such as gradients of biases, are partial sums over blocks of rows in the same way. For a norm, the kernel also yields
      the norm's input and the squared distances from each block's mean; a second group combines these into statistics of rows,
      and a third normalizes, reading the input once.
    - Split-K (a schedule with `parts`): the kernel yields f32 sums of each part of the inner dimension, and a second group adds
      them and computes the epilogue.
    - A 2-D convolution of f16 or bf16 with a channels-last result is an implicit GEMM of pixels by features: its group sums over
      windows and is marked `graph.window`, too. A grouped convolution is one product per group.
    - "direct": a depthwise or grouped convolution becomes a direct convolution, the default for most depthwise ones
      (families/conv/depthwise.py).
    - "vendor{routine=NAME}": the calls, and the epilogue if the routine computes that, become a call of a vendor's routine
      (families/vendor/). This is the default in place of the library's call if the routine's cost model prefers it.
    - A grouped GEMM (_grouped_mm) becomes a graph.kernel with a hook for the epilogue.
    - A user's kernel (a graph.kernel) that has several configs is compiled with the chosen one, by default the first.
    - A kernel in source with a hook, and the pointwise group that first reads its result, become one graph.kernel
      (families/custom/epilogue.py).

        %0 = "graph.extern"(%x, %w) {callee = "aten.mm.default", graph.choice = "triton{m=128 n=128}", ...}
        %1 = "graph.group"(%0) ({ relu })
     -> %1 = "graph.group"(%x, %w) ({ sum of products ; relu }) {graph.choice = "triton{m=128 n=128}"}

    target    the GPU whose cost model decides on calls without graph.choice (none: all of these stay except depthwise convolutions)
    schedule  the choice for all calls without graph.choice that it can compute; the default decides on others
    wide_sizes  symbolic sizes may need more than the 32 bits in which Lamina's kernels count, so libraries get calls with these
    round_intermediates  epilogues of kernels in source round values that eager would store in a half type to that type
    """

    name: ClassVar[str] = "lamina-select-kernels"
    target: Target | None = None
    schedule: str = ""
    wide_sizes: bool = False
    round_intermediates: bool = False

    def run(self, module: ir.Module) -> None:
        """Rewrites the calls; raises CompileError if a `graph.choice` cannot compute its call."""
        requested = Choice.parse(self.schedule, _SCHEDULES) if self.schedule else None
        for op in (*calls(module), *kernels(module)):
            _check(op)
        for family in FAMILIES:
            for problem in family.problems(module):
                self._select(problem, requested)
        fuse_epilogues(module, self.round_intermediates)

    def _select(self, problem: Problem, requested: Choice | None) -> None:
        """Rewrites a problem's calls by the choice on them, else by the given choice if it can compute them, else by the
        default."""
        op, place = problem.ops[0], where(problem.ops[0].location)
        if (chosen := Choice.of(op, _SCHEDULES)) is not None:
            try:
                self._take(problem, chosen)
            except Unfit as e:
                raise CompileError(f"{chosen} cannot compute this: {e}", where=place, remedy="drop graph.choice") from None
            return
        wide = self.wide_sizes and any(map(has_symbolic_sizes, problem.ops))
        usual = default(problem, self.target, self.round_intermediates, library=wide)
        for choice in (usual,) if requested is None or wide else (requested, usual):
            with suppress(Unfit):
                self._take(problem, choice)
                return

    def _take(self, problem: Problem, choice: Choice) -> None:
        """Rewrites a problem's calls. Raises Unfit, with nothing changed, where the choice cannot compute them."""
        if not isinstance(choice.kernel, VendorSchedule):
            if choice != LIBRARY:
                problem.take(choice, self.target)
            return
        candidates = _vendors(problem, self.target, self.round_intermediates)
        replace_by_call(next((call for routine, call in candidates if routine.name == choice.kernel.routine), None), problem)


def candidates(problem: Problem, target: Target, rounds: bool = False) -> list[Choice]:
    """Returns the choices that compete with the model's own library call: Lamina's kernels, the most promising first by the cost
    model, then vendors' routines. rounds: values that eager would store in a half type are rounded to it."""
    vendors = [Choice(VendorSchedule(routine.name)) for routine, _ in _vendors(problem, target, rounds)]
    return [*problem.candidates(target.gpu), *vendors]


def default(problem: Problem, target: Target | None, rounds: bool = False, library: bool = False) -> Choice:
    """Returns the choice if nothing was measured: the family's default. If that is the library, a vendor's routine whose cost model
    prefers it takes its place. library: rules out Lamina's kernels."""
    chosen = LIBRARY if library else problem.default(None if target is None else target.gpu)
    if chosen != LIBRARY or target is None:
        return chosen
    paying = (routine for routine, _ in _vendors(problem, target, rounds) if routine.pays(problem, target))
    return next((Choice(VendorSchedule(routine.name)) for routine in paying), LIBRARY)


def _vendors(problem: Problem, target: Target | None, rounds: bool) -> list[tuple[Routine, VendorCall]]:
    """Returns the vendors' routines that can compute a problem, with their calls. A routine that covers the epilogue rounds only at
    its end, so it does not count if intermediate values must be rounded."""
    found = [(routine, routine.call(problem, target)) for routine in ROUTINES] if target is not None else []
    return [(routine, call) for routine, call in found if call is not None and not (rounds and covers_epilogue(call, problem))]


def _check(op: ir.Operation) -> None:
    """Raises CompileError for a malformed choice, and for one on a call that no family reads."""
    choice = Choice.of(op, _SCHEDULES)
    if choice not in (None, LIBRARY) and not any(family.reads(op) for family in FAMILIES):
        callee = ir.StringAttr(op.attributes["callee"]).value
        raise CompileError(
            f"{choice} on {callee}, which no kernel of Lamina computes",
            where=where(op.location),
            remedy=f"drop graph.choice; there are kernels for {'; '.join(family.computes for family in FAMILIES)}",
        )
