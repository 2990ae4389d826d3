"""Tests reductions along a middle dimension whose size each call decides: teams of threads share its rows, and few rows leave teams, or turns
of an unrolled body, without any. Values are compared with float64."""

import pytest
import torch
from sized_programs import compiled, kernels, launches
from torch import Tensor

from lamina.frontend.compiling.worker import finish

__all__ = ["kernels", "launches"]

ROWS = (2, 3, 12, 16, 17, 33, 77, 130, 301)
"""Fewer than there are teams, and as many as take one turn of each, a few turns, or several unrolled bodies of them."""

KERNELS = {
    "logsumexp": lambda x: x.logsumexp(1),
    "sum of squares": lambda x: x.square().sum(1),
    "largest": lambda x: x.amax(1),
    "deviation": lambda x: x.std(1),
}


@pytest.mark.parametrize("columns", [69, 100])  # single elements, and accesses of four
@pytest.mark.parametrize("name", KERNELS)
def test_any_number_of_rows(name: str, columns: int, kernels: list[str]) -> None:
    """Every number of rows is computed by the kernel for any number and by the one for its range."""
    run = compiled(KERNELS[name])
    for rows in ROWS:
        x: Tensor = torch.randn(3, rows, columns)
        want = KERNELS[name](x.double())
        for _ in range(2):
            got = run(x)
            assert (got - want).abs().max() <= 3e-6 * want.abs().max()
            finish()
