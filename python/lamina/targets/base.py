"""The interface of a target's compiler (Backend) and its result (Artifact)."""

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

    target    the target's text
    code      the object file (CPU) or binary
    kernels   the entry points in it
    messages  of failed checks: a kernel stores number + 1 in the error slot
    llvm      the LLVM IR it was made of, before optimization; "" when loaded from a cache
    seconds   time of each stage of the compilation
    needs     launch requirements of kernels that their tile programs do not state
    """

    target: str
    code: bytes
    kernels: tuple[str, ...]
    messages: tuple[str, ...] = ()
    llvm: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    needs: dict[str, Needs] = field(default_factory=dict)


class Backend(ABC):
    """Compiles tile programs to code for one target."""

    target: Target

    @abstractmethod
    def compile(self, module: ir.Module, ready: Sequence[Any] = ()) -> Artifact:
        """Compiles every tile program of the module. The module is consumed: it is left at the lowest level it reached.

        ready  kernels for the same artifact that are already in the target's own form: for GPUs targets.triton.compiler.Awaited
        """

    @abstractmethod
    def below(self, module: ir.Module, ready: Sequence[Any] = ()) -> Iterator[tuple[str, Callable[[], str]]]:
        """Yields the levels under tile by name, each with a function that returns its text. A level is reached when it is asked
        for. The module is consumed.

        ready  as in `compile`
        """

    @abstractmethod
    def assembly(self, artifact: Artifact) -> str:
        """Returns the machine code as text, made on demand."""
