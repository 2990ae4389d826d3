"""Kernels over symbolic sizes that lamina-distribute lowers for GPUs: in the simulator, against float64."""

from collections.abc import Callable

import pytest
import torch
from sized_programs import compiled, launches
from torch import Tensor

from lamina.core.program import Launch

__all__ = ["launches"]
F = torch.nn.functional
Make = Callable[[int, int], Tensor]


def vectors(b: int, n: int) -> Tensor:
    return torch.randn(b, n)


SHAPES = ((4, 10, 12), (3, 7, 11))
FIXED = {shape: torch.nn.Parameter(torch.randn(shape), False) for shape in SHAPES}


def per_channel(x: Tensor) -> Tensor:
    """Normalizes over all dimensions but the second: a row is as many runs as there are images."""
    dims = (0, 2, 3)
    return (x - x.mean(dims, keepdim=True)) * (x.square().mean(dims, keepdim=True) + 1).rsqrt()


def of_fixed_runs(x: Tensor) -> Tensor:
    """As above, where the parameter's shape decides all sizes but the first."""
    shape = (x.shape[1], x.shape[2], x.shape[3])
    return per_channel(x.sin() + FIXED[shape].to(x.dtype))


KERNELS: dict[str, tuple[Callable[[Tensor], Tensor], Make]] = {
    "elementwise": (lambda x: x.sin() * 2, vectors),
    "softmax": (lambda x: x.softmax(-1), vectors),
    "sum of columns": (lambda x: x.exp().sum(0), vectors),
    "transposed": (lambda x: x.t().contiguous() + 1, vectors),
    "part of a row": (lambda x: x[:, 1:-1] * 2, vectors),
    "scan": (lambda x: x.cumsum(1), vectors),
    "channels, runs of 120": (of_fixed_runs, lambda b, n: torch.randn(b, *SHAPES[0])),
    "channels, runs of 77": (of_fixed_runs, lambda b, n: torch.randn(b, *SHAPES[1])),
    "channels, runs of a symbol": (per_channel, lambda b, n: torch.randn(b, 3, 4, n)),
}


@pytest.mark.filterwarnings("error")  # such as that it is compiled per size
@pytest.mark.parametrize("name", KERNELS)
def test_any_size(name: str, launches: list[Launch]) -> None:
    kernel, make = KERNELS[name]
    run = compiled(kernel)
    for sizes in ((6, 11), (3, 128), (33, 7), (2, 1000)):
        x = make(*sizes)
        got, want = run(x), kernel(x.double())
        assert got.shape == want.shape
        assert (got - want).abs().max() <= 3e-6 * max(1, want.abs().max())
