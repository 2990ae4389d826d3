"""Which expressions become one kernel, and why.

- `(x + 1).relu() * 2`: one. Every element of the result depends on one element of x; the chain runs in registers.
- `x.relu() + y.sigmoid()`: one. Two chains over the same elements end in one result.
- `(x * x).sum().sqrt()`: the squares are made where they are added, and the root is taken of the sum at hand, so no array is
  written at all. A small x is one kernel. A large one is summed in parallel parts, and a second kernel adds these few numbers.
- `x / x.sum()`: every quotient needs the whole sum. A small x is read by one program, twice, the second time from cache: one
  kernel. For a large one that would leave all cores but one idle: its sum is made in parallel parts as above, and nobody can
  divide before all of them are done, which is where one kernel ends and the next begins.

Run: python examples/exercises/fusion.py
"""

from collections.abc import Callable

import torch
from torch import Tensor

import lamina
from lamina.report.explanation import KernelStep


def chain(x: Tensor, y: Tensor) -> Tensor:
    """Computes a chain of pointwise operations."""
    return (x + 1).relu() * 2


def two_chains(x: Tensor, y: Tensor) -> Tensor:
    """Joins two chains."""
    return x.relu() + y.sigmoid()


def length(x: Tensor, y: Tensor) -> Tensor:
    """Computes the length of x as a vector."""
    return (x * x).sum().sqrt()


def normalized(x: Tensor, y: Tensor) -> Tensor:
    """Divides x by its sum."""
    return x / x.sum()


SMALL, LARGE = (64, 128), (2048, 2048)


def kernels_of(function: Callable[[Tensor, Tensor], Tensor], shape: tuple[int, int]) -> tuple[KernelStep, ...]:
    """Returns the kernels that a function of two tensors becomes."""
    return lamina.explain(function, (torch.randn(shape), torch.randn(shape)), show=False).kernels


def main() -> None:
    """Prints the kernels of each function on small and large tensors."""
    for function in (chain, two_chains, length, normalized):
        for shape in (SMALL, LARGE):
            kernels = kernels_of(function, shape)
            print(f"{function.__name__} of {shape}: {len(kernels)} kernel(s)")
            for kernel in kernels:
                print(f"    {kernel.name} of {', '.join(kernel.ops)}: {kernel.programs} programs, {kernel.bytes} bytes")


if __name__ == "__main__":
    main()
