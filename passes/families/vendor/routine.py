"""The protocol of a vendor's routine that competes with Lamina's kernels, and the call that it becomes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from torch_mlir import ir

from lamina.core.target import Target
from lamina.dialects.graph import IN_PLACE
from lamina.schedules.text import KernelSchedule

from ...ir.affine import Affine, Axis, SplitAxis, offset, row_major
from ...ir.expressions import Expr, Load, walk
from ...ir.extern_calls import extern_call
from ...ir.locations import fused
from ...ir.reading import Untraceable, shape_of, terminator
from ...space.contraction import Unfit
from ...trace.trace import Tracer
from ..problem import Problem
from ..surroundings import replace_by, strides_of


@dataclass(frozen=True)
class VendorSchedule(KernelSchedule):
    """The choice of a vendor's routine: {kernel = "vendor", routine = "cublaslt"}."""

    kind: ClassVar[str] = "vendor"
    routine: str = "NAME"


@dataclass(frozen=True)
class VendorCall:
    """A call of an overload in the place of a problem's calls, and of the epilogue that it covers.

    args, kwargs  values of the module, numbers, text, None and lists of these
    results       the values that its results are, in order: those of the problem's group, or of its calls if the group stays
    in_place      the overload has an `out` variant that writes into given memory, without a copy inside
    """

    callee: str
    args: Sequence[Any]
    results: Sequence[ir.Value]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    in_place: bool = False


class Routine(Protocol):
    """A routine of a vendor's library. name: its choice."""

    name: ClassVar[str]

    def call(self, problem: Problem, target: Target) -> VendorCall | None:
        """Returns the call that computes a problem; None where the routine does not. Nothing changes in the module."""
        ...


def take(call: VendorCall | None, problem: Problem) -> None:
    """Replaces a problem's calls, and the epilogue if it is covered, by a routine's call. Raises Unfit without one."""
    if call is None:
        raise Unfit("the routine is for other calls")
    group = problem.group if problem.group is not None and call.results[0] in list(problem.group.results) else None
    covered = [*problem.ops, *([group] if group is not None else [])]
    types = [(v.type, strides_of(v)) for v in call.results]
    with fused([op.location for op in covered]), ir.InsertionPoint(covered[-1]):
        made = extern_call(call.callee, call.args, call.kwargs, types)
    if call.in_place:
        made.attributes[IN_PLACE] = ir.UnitAttr.get(made.context)
    replace_by(made.results, group, problem.ops)


def epilogue_expression(problem: Problem) -> Expr | None:
    """Returns the expression of an element of the epilogue's only result, in terms of the element of the calls' results at the
    same place and of other operands; None without an epilogue, and for other epilogues."""
    group = problem.group
    if group is None or len(group.results) != 1:
        return None
    block = group.regions[0].blocks[0]
    made = [op.results[0] for op in problem.ops]
    own = [a for a, v in zip(block.arguments, group.operands, strict=True) if v in made]
    index = tuple(Affine.of(Axis(n)) for n in shape_of(group.results[0]))
    here = offset(index, row_major(shape_of(group.results[0])))
    try:
        found = Tracer().element(terminator(block).operands[0], index)
    except (Untraceable, SplitAxis):
        return None
    return found if all(e.at == here for e in walk(found) if isinstance(e, Load) and e.tensor in own) else None
