"""`gelu(x @ W + b)` from Python to machine code.

- aten    the graph after torch.export and Lamina's decompositions: mm, add, and GELU in elementary functions
- torch   the same in torch-mlir's dialect
- linalg  loops over elements with index maps; mm is a call of a private function that stands for the library's
- graph   the call is a graph.extern; the addition and GELU, which has been recognized, are one graph.group
- plan    buffers with offsets in the arena, and the order of steps: the library's call, then the launch of the group's kernel
- tile    the group as a program over blocks, which reads, computes and writes vectors
- llvm    the same in the llvm dialect, with the processor's vector length, and erf as polynomials
- asm     the machine code

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
    """Prints the model at the wanted levels, by default at all levels."""
    for level, text in levels(*model()):
        if not wanted or level in wanted:
            print(f"===== {level}\n{text}")


if __name__ == "__main__":
    main(sys.argv[1:])
