"""The protocol of kernel families: what lamina-select-kernels and tuning ask of each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.program import Call
from lamina.core.target import Target
from lamina.schedules.text import KernelSchedule

from .choice import LIBRARY, Choice
from .launches import Source
from .surroundings import reader

if TYPE_CHECKING:
    from torch import Tensor


class Problem(Protocol):
    """Calls of a module that are decided on together, with the ops around them that a kernel may cover."""

    @property
    def ops(self) -> Sequence[ir.Operation]:
        """The graph.extern ops; each carries the choice."""
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
    def kept(self) -> Sequence[ir.Value]:
        """The results of the calls that are compared when candidates are measured; empty: those of the group or of all calls."""
        return ()

    @property
    def what(self) -> str:
        """A description for people; "": by callee and shapes."""
        return ""

    def default(self, gpu: Gpu | None) -> Choice:
        """Returns what is taken where nothing was measured. gpu: None where no machine is known to estimate times for."""
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
        return reader(self.op)


@dataclass(frozen=True)
class Reported:
    """What reports say of the calls that a family's kernels compete for.

    noun     one of them, such as "matrix product"
    callees  their names, which launches of Lamina's kernels have among their `ops`
    factors  which of a call's tensors have the dtype that kernels compute in
    further  names of launches that are a call's second kernel
    stays    returns whether a library's call cannot become Lamina's kernel
    why      the reason
    """

    noun: str
    callees: Sequence[str]
    factors: slice
    further: Sequence[str] = ()
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
