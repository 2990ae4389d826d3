"""The base class of Lamina's passes."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir


@dataclass(frozen=True)
class Pass:
    """A module pass: transforms a module in place.

    A subclass is a frozen dataclass: its fields are its options (kebab-case in pipeline text), `name` is its name there. The first
    line of its docstring is its one-line help, the rest states what holds before and after, with a small IR example.
    """

    name: ClassVar[str]

    def run(self, module: ir.Module) -> None:
        """Transforms `module`. Raises CompileError with the op, its source location and a remedy."""
        raise NotImplementedError
