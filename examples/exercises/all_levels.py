"""`gelu(x @ W + b)` from Python to machine code.

- aten    what torch.export and our decompositions make of the Python: mm, add, and GELU in elementary functions
- torch   the same in torch-mlir's dialect
- linalg  loops over elements with their index maps; mm goes to a library and is a call of a private function
- graph   the call is a graph.extern; the addition and GELU, which is recognized, are one graph.group
- plan    memory: the product goes into the arena, at an offset; the call and the launch in order
- tile    the group as a program over blocks, with vectors that are read, computed on and written
- llvm    the same in the llvm dialect, on the processor's vectors, erf as polynomials
- asm     what runs

Run: python examples/exercises/all_levels.py [level...]
"""

import sys

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from lamina.frontend.entry.levels import levels


class Model(nn.Module):
    """Computes gelu(x @ W + b)."""

    def __init__(self) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.randn(48, 64) / 7)
        self.b = nn.Parameter(torch.randn(64))

    def forward(self, x: Tensor) -> Tensor:
        """Maps (rows, 48) to (rows, 64)."""
        return gelu(x @ self.W + self.b)


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Returns the model and its input."""
    torch.manual_seed(0)
    return Model(), (torch.randn(32, 48),)


def main(wanted: list[str]) -> None:
    """Prints the model at the wanted levels, by default at all."""
    for level, text in levels(*model()):
        if not wanted or level in wanted:
            print(f"===== {level}\n{text}")


if __name__ == "__main__":
    main(sys.argv[1:])
