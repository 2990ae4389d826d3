"""What compiles for a target, and what it makes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch_mlir import ir

from lamina.core.program import Needs
from lamina.core.target import Target


@dataclass(frozen=True)
class Artifact:
    """Loadable code.

    target    what it is for, as text
    code      the object file (CPU) or binary
    kernels   the entry points in it
    messages  of failed checks: a kernel stores number + 1 in the error slot
    llvm      the LLVM IR it was made of, before optimisation; "" when loaded from a cache
    seconds   time of each stage of the compilation
    needs     what kernels need at their launches that their tile programs do not say
    """

    target: str
    code: bytes
    kernels: tuple[str, ...]
    messages: tuple[str, ...] = ()
    llvm: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    needs: dict[str, Needs] = field(default_factory=dict)


class Backend(ABC):
    """Turns tile programs into code for one target."""

    target: Target

    @abstractmethod
    def accepts(self, module: ir.Module) -> str | None:
        """Why the tile programs of a module cannot be compiled here, or None."""

    @abstractmethod
    def compile(self, module: ir.Module, ready: Sequence[Any] = ()) -> Artifact:
        """Code for every tile program of the module, which is consumed: it is left at the lowest level it reached.

        ready  kernels that belong into the same code and are in a form of the target's own by now: for GPUs
               targets.triton.compiler.Awaited
        """

    @abstractmethod
    def below(self, module: ir.Module, ready: Sequence[Any] = ()) -> Iterator[tuple[str, Callable[[], str]]]:
        """The levels under tile by name, each reached when it is asked for, with their texts. The module is consumed.

        ready  as of `compile`
        """

    @abstractmethod
    def assembly(self, artifact: Artifact) -> str:
        """The machine code as text, made on demand."""
