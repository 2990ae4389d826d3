"""Tests kernels that store what they also add up, over sizes that each call decides: in the simulator, against float64.

The last part of a sum is shorter than the others, so that the stored values are fewer than the kernel's iterations.
"""

from collections.abc import Callable

import pytest
import torch
from sized_programs import compiled, kernels, launches
from torch import Tensor

__all__ = ["kernels", "launches"]

Results = tuple[Tensor, ...]


def columns(x: Tensor) -> Results:
    y = x.sin() * 2
    return y, y.sum(0)


def joined(x: Tensor) -> Results:
    """The gradient of a bias: two loops become one, along which results are stored, too."""
    y = x.view(-1, 5, x.shape[1]).exp()
    return y, y.sum((0, 1))


def extrema(x: Tensor) -> Results:
    y = x - 100
    return y, y.amax(0), y.amin(0)


def moments(x: Tensor) -> Results:
    y = x + 1
    return y, y.sum(0), y.square().sum(0)


def total(x: Tensor) -> Results:
    y = x.cos()
    return y, y.sum()


def halves(x: Tensor) -> Results:
    y = x * 2  # exact in bf16
    return y, y.to(torch.promote_types(x.dtype, torch.float32)).sum(0)


def further_results(x: Tensor) -> Results:
    """What is stored is computed from another result, and read by a kernel of its own."""
    z = x.view(-1, 5, x.shape[1]) * 3
    y = z.tanh()
    return z, y, y.sum((0, 1)), y.flip(2)


def channels(x: Tensor) -> Results:
    y = x.view(-1, 5, 2, x.shape[1]).abs()
    return y, y.sum((0, 2, 3))


CASES = [columns, joined, extrema, moments, total, halves, further_results, channels]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("of", CASES, ids=lambda of: of.__name__)
def test_against_float64(of: Callable[[Tensor], Results], kernels: list[str]) -> None:
    run = compiled(of)
    for rows, width in ((2000, 12), (2560, 12), (1290, 7), (10, 12), (4100, 3)):
        x = torch.randn(rows, width).to(torch.bfloat16 if of is halves else torch.float32)
        for got, right in zip(run(x), of(x.double()), strict=True):
            assert got.shape == right.shape
            assert (got.double() - right).abs().max() <= 3e-6 * max(1, float(right.abs().max()), rows**0.5)


@pytest.mark.parametrize("of", [columns, joined, moments, total], ids=lambda of: of.__name__)
def test_one_kernel_stores_and_adds_up(of: Callable[[Tensor], Results], kernels: list[str]) -> None:
    compiled(of)(torch.randn(20000, 12))
    assert len(kernels) == 2
