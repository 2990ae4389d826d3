"""Shows the IR before and after each graph pass, on a model that gives each of them something to do.

- lamina-rewrite-patterns finds GELU, written out with tanh, and replaces it with one op
- lamina-dce              removes the ops of the written-out GELU, whose results are no longer used
- lamina-simplify         removes `+ 0` and the double negation, and turns `** 2` into a product
- lamina-cse              finds that both exponentials now have the argument x, and keeps one
- lamina-fold-constants   computes `scale`, which depends on no input

Run: python examples/exercises/graph_passes.py
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

import lamina
from lamina.dialects import context
from lamina.frontend.entry.levels import emit
from lamina.passes.infra.pipeline import clone, run

PASSES = ("lamina-rewrite-patterns", "lamina-dce", "lamina-simplify", "lamina-cse", "lamina-fold-constants")


class Model(nn.Module):
    """A model that gives each of the passes something to do."""

    def forward(self, x: Tensor) -> Tensor:
        """Maps (rows, 4) to the same shape."""
        scale = torch.arange(4.0).sqrt() * 3 + 1
        gelu = 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        twice = x.exp() + (x + 0).exp()
        square = x.neg().neg() ** 2
        return gelu * scale + twice + square


def rewritten() -> Iterator[tuple[str, str, str]]:
    """Yields (pass, IR before, IR after) for every pass, each applied to the result of the one before."""
    from torch_mlir import ir

    linalg = emit(Model(), (torch.randn(3, 4),), target="cpu", level="linalg", options=lamina.Options())
    module = ir.Module.parse(linalg, context())
    for name in PASSES:
        before = clone(module)
        run(f"builtin.module({name})", module)
        yield name, str(before), str(module)


def ops(text: str) -> int:
    """Returns the number of ops that compute tensors."""
    return text.count("linalg.generic")


def main() -> None:
    """Prints the IR before and after each pass."""
    for name, before, after in rewritten():
        print(f"// ===== {name}: {ops(before)} ops before, {ops(after)} after")
        print(f"{before}\n// ----- after {name}\n{after}")


if __name__ == "__main__":
    main()
