"""The protocol of a vendor's routine that competes with Lamina's kernels, and the call that it becomes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from torch_mlir import ir

from lamina.core.sizes import SizeLike
from lamina.core.target import Target
from lamina.dialects.graph import IN_PLACE
from lamina.schedules.text import KernelSchedule

from ...ir.affine import Affine, Axis, SplitAxis, offset, row_major
from ...ir.expressions import Expr, Load, walk
from ...ir.extern_calls import extern_call
from ...ir.locations import fused
from ...ir.reading import Untraceable, producer, shape_of, terminator
from ...space.contraction import Unfit
from ...trace.trace import Tracer
from ..conv.image_rows import as_rows, is_rows, rows_index
from ..problem import Problem
from ..surroundings import replace_by, strides_of


@dataclass(frozen=True)
class VendorSchedule(KernelSchedule):
    """The choice of a vendor's routine: "vendor{routine=cublaslt}"."""

    kind: ClassVar[str] = "vendor"
    routine: str = "NAME"


@dataclass(frozen=True)
class VendorCall:
    """A call of an overload in the place of a problem's calls, and of the epilogue that it covers.

    args, kwargs  values of the module, functions that emit one, numbers, text, None and lists of these
    results       the values that its results are, in order: those of the problem's group, or of its calls if the group stays
    in_place      the overload has an `out` variant that writes into given memory, without a copy inside
    result_types  types and strides of the call's own results, of images where `results` may be their rows; (): those of `results`
    """

    callee: str
    args: Sequence[Any]
    results: Sequence[ir.Value]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    in_place: bool = False
    result_types: Sequence[tuple[ir.Type, Sequence[SizeLike]]] = ()


@dataclass(frozen=True)
class Epilogue:
    """The function that a problem's group with one result applies to each element of the calls' results.

    element     the result's element as an expression, which loads the calls' results at the same index only (for a result that
                holds an image as rows: at the same pixel and channel)
    index       that place in the calls' results
    operand_of  values of the module, by the values that are loaded
    """

    element: Expr
    index: Sequence[Affine]
    operand_of: Mapping[ir.Value, ir.Value]


class Routine(Protocol):
    """A routine of a vendor's library. name: its choice."""

    name: ClassVar[str]

    def call(self, problem: Problem, target: Target) -> VendorCall | None:
        """Returns the call that computes a problem; None if the routine does not. Nothing changes in the module."""
        ...

    def pays(self, problem: Problem, target: Target) -> bool:
        """Returns whether the call is better than the library's that the model names, by the cost model."""
        return False


def covers_epilogue(call: VendorCall, problem: Problem) -> bool:
    """Returns whether a call computes a problem's epilogue, too."""
    return problem.group is not None and call.results[0] in list(problem.group.results)


def replace_by_call(call: VendorCall | None, problem: Problem) -> None:
    """Replaces a problem's calls, and the epilogue if it is covered, by a routine's call. Raises Unfit without one."""
    if call is None:
        raise Unfit("the routine is for other calls")
    group = problem.group if covers_epilogue(call, problem) else None
    covered = [*problem.ops, *([group] if group is not None else [])]
    types = call.result_types or [(v.type, strides_of(v)) for v in call.results]
    feeding = [feeder for op in problem.ops for v in op.operands if (feeder := producer(v)) is not None]
    with fused([op.location for op in covered]), ir.InsertionPoint(covered[-1]):
        args, kwargs = [_value(a) for a in call.args], {name: _value(a) for name, a in call.kwargs.items()}
        extern = extern_call(call.callee, args, kwargs, types)
        results = [v if v.type == old.type else as_rows(v, old.type) for v, old in zip(extern.results, call.results, strict=True)]
    if call.in_place:
        extern.attributes[IN_PLACE] = ir.UnitAttr.get(extern.context)
    replace_by(results, group, problem.ops)
    for op in feeding:
        if op.name == "graph.group" and not any(list(v.uses) for v in op.results):
            op.erase()


def _value(argument: Any) -> Any:
    return argument() if callable(argument) else argument


def epilogue(problem: Problem) -> Epilogue | None:
    """Returns the epilogue of a problem; None without one, and for one that is not element by element."""
    group = problem.group
    if group is None or len(group.results) != 1:
        return None
    block = group.regions[0].blocks[0]
    results = [op.results[0] for op in problem.ops]
    operand_of = dict(zip(block.arguments, group.operands, strict=True))
    image, shape = shape_of(results[0]), shape_of(group.results[0])
    index = tuple(Affine.of(Axis(n)) for n in image)
    here, rows = offset(index, row_major(image)), shape != image and len(image) == 4
    if (shape != image and not rows) or (rows and not is_rows(image, shape)):
        return None
    try:
        element = Tracer().element(terminator(block).operands[0], rows_index(image, shape, index) if rows else index)
    except (Untraceable, SplitAxis):
        return None
    own = [e for e in walk(element) if isinstance(e, Load) and operand_of[e.tensor] in results]
    return Epilogue(element, index, operand_of) if own and all(e.offset == here for e in own) else None
