"""The protocol of kernel families: what lamina-select-kernels and tuning ask of each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.program import Call
from lamina.core.target import Target
from lamina.schedules.text import KernelSchedule

from ..ir.locations import op_word
from .choice import LIBRARY, Choice
from .launches import Source
from .surroundings import only_reader, plain_name, strides_of

if TYPE_CHECKING:
    from torch import Tensor


class Problem(Protocol):
    """Calls of a module that are decided on together, with the ops around them that a kernel may cover."""

    @property
    def ops(self) -> Sequence[ir.Operation]:
        """The graph.extern or graph.kernel ops; each carries the choice."""
        ...

    @property
    def group(self) -> ir.Operation | None:
        """The epilogue: the group that alone reads the calls' results; None: no kernel covers it."""
        return None

    @property
    def before(self) -> Sequence[ir.Operation]:
        """Producers of operands that only these calls need, in order."""
        return ()

    @property
    def after(self) -> Sequence[ir.Operation]:
        """The ops that follow the calls, in order: the epilogue, and views that it reads the results through."""
        return () if self.group is None else (self.group,)

    @property
    def results(self) -> Sequence[ir.Value]:
        """The results that are compared when candidates are measured: those of the group, or of the calls without one."""
        return list(self.group.results) if self.group is not None else [op.results[0] for op in self.ops]

    @property
    def factors(self) -> Sequence[ir.Value]:
        """The operands of the first call whose sizes people know it by."""
        return list(self.ops[0].operands)[:2]

    @property
    def what(self) -> str:
        """A description for people: the callee with the shapes of its factors, and the groups around it."""
        callee = op_word(ir.StringAttr(self.ops[0].attributes["callee"]).value)
        shapes = " by ".join("x".join(map(str, ir.RankedTensorType(v.type).shape)) for v in self.factors)
        count = f"{len(self.ops)} x " if len(self.ops) > 1 else ""
        return describe_with_groups(self, f"{count}{callee} {shapes}")

    @property
    def reference(self) -> Choice:
        """The choice whose numbers are trusted."""
        return LIBRARY

    def strides(self, operand: ir.Value) -> Sequence[int]:
        """Returns the strides that an operand will have in memory."""
        return strides_of(operand)

    def default(self, gpu: Gpu | None) -> Choice:
        """Returns the choice if nothing was measured. gpu: the machine to estimate times for, None if it is unknown."""
        return LIBRARY

    def candidates(self, gpu: Gpu) -> Sequence[Choice]:
        """Returns the choices of Lamina's kernels, the most promising first by the cost model; empty: nothing to measure."""
        return ()

    def take(self, choice: Choice, target: Target | None) -> None:
        """Rewrites the calls. Raises Unfit, with nothing changed, where the choice cannot compute them."""
        ...

    def settle(self, inputs: "Sequence[Tensor]") -> None:
        """Fills in those of the random inputs of a measurement that must have certain values. inputs: tensors for the operands of
        `before`, the calls and the group, each once."""
        return


def describe_with_groups(problem: Problem, calls: str) -> str:
    """Returns the description of a problem's calls with the names of the groups around them."""
    first = "".join(f"{plain_name(op)}, then " for op in problem.before if op.name == "graph.group")
    return f"{first}{calls}{'' if problem.group is None else f' and {plain_name(problem.group)}'}"


@dataclass(frozen=True)
class CallProblem(Problem):
    """One call, with the group that alone reads its result."""

    op: ir.Operation

    @property
    def ops(self) -> Sequence[ir.Operation]:
        """The call."""
        return (self.op,)

    @property
    def group(self) -> ir.Operation | None:
        """The epilogue."""
        return only_reader(self.op)


@dataclass(frozen=True)
class Reported:
    """The texts with which reports describe the calls that a family's kernels compete for.

    noun             one of them, such as "matrix product"
    callees          their names, which launches of Lamina's kernels have among their `ops`
    factors          which of a call's tensors have the dtype that kernels compute in
    further_kernels  names of launches that are a call's second kernel
    stays            returns whether a library's call cannot become Lamina's kernel
    why              the reason
    """

    noun: str
    callees: Sequence[str]
    factors: slice
    further_kernels: Sequence[str] = ()
    stays: Callable[[Call], bool] = lambda _: False
    why: str = ""


class Family(Protocol):
    """Kernels that compute one kind of call.

    computes   what they compute, for errors
    schedules  the kinds of their schedules, which choices name
    sources    those that are written in source, by the callee of their graph.kernel
    reported   what reports say of the calls; None: nothing
    """

    computes: ClassVar[str]
    schedules: ClassVar[Sequence[type[KernelSchedule]]] = ()
    sources: ClassVar[Mapping[str, Source]] = {}
    reported: ClassVar[Reported | None] = None

    def reads(self, op: ir.Operation) -> bool:
        """Returns whether a graph.extern is a call of this kind."""
        ...

    def problems(self, module: ir.Module) -> Iterator[Problem]:
        """Yields the problems of a module, in order. Each is read when it is asked for, since rewriting earlier ones changes what
        surrounds a call."""
        ...

    def hand_over(self, module: ir.Module, target: Target | None) -> None:
        """Gives the calls that no kernel of Lamina took the form of a vendor's routine. By default they have it already."""
        return
