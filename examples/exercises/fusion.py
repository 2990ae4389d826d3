"""Which expressions become one kernel, and why.

- `(x + 1).relu() * 2`: one kernel. Every element of the result depends on one element of x; intermediate values stay in registers.
- `x.relu() + y.sigmoid()`: one kernel. Two chains over the same elements end in one result.
- `(x * x).sum().sqrt()`: squares, sum and root are fused, so no array is written. For a small x this is one kernel. A large x is
  summed in parallel parts, and a second kernel adds the few partial sums.
- `x / x.sum()`: every quotient needs the whole sum. For a small x this is one kernel: a single program reads x twice, the second
  time from cache. For a large x that would leave all cores but one idle, so the sum is computed in parallel parts as above. The
  division must wait for all of them, so it is another kernel.

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
