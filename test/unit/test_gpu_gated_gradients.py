"""Tests gradients of gated units on a GPU, whose halves are concatenated: one kernel computes them, without storing a sigmoid."""

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import Simulated, distributed
from oracle import compare
from torch import Tensor

from lamina.core.program import Launch


def both_halves(g: Tensor, x: Tensor) -> Tensor:
    """The gradient of silu(a) * b for the halves a and b of x."""
    a, b = x.chunk(2, -1)
    s = torch.sigmoid(a)
    return torch.cat([g * b * (s * (1 + a * (1 - s))), g * (a * s)], -1)


def padded(g: Tensor, x: Tensor) -> Tensor:
    """The gradient of a SiLU of all but the last elements of each row."""
    s = torch.sigmoid(x[..., : g.shape[-1]])
    return F.pad(g * (s * (1 + x[..., : g.shape[-1]] * (1 - s))), (0, x.shape[-1] - g.shape[-1]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("fn", "shapes"), [(both_halves, ((3, 5, 37), (3, 5, 74))), (padded, ((2, 7, 127), (2, 7, 130)))])
def test_one_kernel_without_a_sigmoid_in_memory(fn: object, shapes: tuple[tuple[int, ...], ...], dtype: torch.dtype) -> None:
    inputs = [torch.randn(shape).to(dtype) for shape in shapes]
    program = Simulated(*distributed(fn, inputs))  # type: ignore[arg-type]
    assert [type(step) for step in program.program.steps] == [Launch]
    compare(fn, inputs, program(*inputs), slack=4)  # type: ignore[arg-type]
