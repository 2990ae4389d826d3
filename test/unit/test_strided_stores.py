"""Tests kernels whose results have different memory orders: smaller results are stored at strides."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from kernel_inputs import run, x
from torch import Tensor

import lamina

CASES: dict[str, Callable[[Tensor], Any]] = {
    "sums of blocks of rows": lambda a: (a.relu(), a.unflatten(2, (-1, 2)).sum((3, 4))),
    "largest of blocks of rows": lambda a: (a.exp(), a.unflatten(2, (-1, 2)).amax((3, 4)), a.sum((2, 3))),
}
SHAPES = [(4, 6, 8, 8), (2, 33, 6, 5), (1, 130, 4, 3)]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_on_a_gpu(name: str, shape: tuple[int, ...]) -> None:
    run(CASES[name], x(*shape).to(memory_format=torch.channels_last))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_on_a_cpu(name: str, shape: tuple[int, ...]) -> None:
    a = x(*shape).to(memory_format=torch.channels_last)
    for mine, exact in zip(lamina.compile(CASES[name], (a,))(a), CASES[name](a.double()), strict=True):
        assert mine.stride() == exact.stride()
        torch.testing.assert_close(mine.double(), exact, rtol=1e-5, atol=1e-5)


def test_lanes_are_of_the_large_result() -> None:
    """All threads of a program work, instead of one element per program."""
    a = x(4, 64, 32, 32).to(memory_format=torch.channels_last)
    (kernel,) = lamina.explain(CASES["sums of blocks of rows"], (a,), target="null:nvvm:sm_90a", show=False).kernels
    assert kernel.programs * 32 <= a.numel()
