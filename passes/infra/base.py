"""What a pass is."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir


@dataclass(frozen=True)
class Pass:
    """A transformation of a module, in place.

    A subclass is a frozen dataclass: its fields are its options (kebab-case in pipeline text), `name` is its name there, its
    docstring's first line is its one-line help and the rest says what holds before and after, with a small IR example.
    `run` raises CompileError with the op, its source location and what to do.
    """

    name: ClassVar[str]

    def run(self, module: ir.Module) -> None:
        raise NotImplementedError
