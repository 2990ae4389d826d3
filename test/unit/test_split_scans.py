"""Tests scans on a GPU that are split into parts because there are few rows, against float64."""

from unittest.mock import patch

import pytest
import torch
from gpu_programs import Simulated, distributed

from lamina.frontend.decompositions.ops.scan import SCANS

CASES = [((1, 1000, 3), 1), ((131, 5), 0), ((2, 127, 4), 1), ((128, 2), 0), ((2, 4097, 1), 1), ((20001,), 0), ((3, 5), 0)]


@pytest.mark.parametrize(("shape", "dim"), CASES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool])
def test_parts_add_up(shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> None:
    x = (torch.randn(shape) * 4).to(dtype)
    with patch("lamina.frontend.decompositions.ops.moments.on_cpu", return_value=False):
        found = SCANS[torch.ops.aten.cumsum.default](x, dim)
    exact = x.double().cumsum(dim)
    assert found.dtype == torch.cumsum(x, dim).dtype and found.shape == x.shape
    bound = exact.abs().max() * (1e-3 if dtype == torch.float16 else 1e-5) if dtype.is_floating_point else 0
    assert (found.double() - exact).abs().max() <= bound


@pytest.mark.parametrize(("shape", "dim"), CASES, ids=str)
@pytest.mark.parametrize("name", ["cummax", "cummin", "logcumsumexp"])
def test_parts_of_other_scans(shape: tuple[int, ...], dim: int, name: str) -> None:
    x = (torch.randn(shape) * 4).round() * 30
    with patch("lamina.frontend.decompositions.ops.moments.on_cpu", return_value=False):
        found = SCANS[getattr(torch.ops.aten, name).default](x, dim)
    exact = getattr(torch, name)(x.double(), dim)
    for got, want in zip(found, exact, strict=True) if isinstance(found, tuple) else [(found, exact)]:
        torch.testing.assert_close(got.double(), want.double(), rtol=1e-6, atol=1e-5)


def test_kernels_of_parts() -> None:
    """Every part has threads of its own, and no element is summed twice."""
    x = torch.randn(1, 517, 40)
    with patch("lamina.frontend.decompositions.ops.moments.on_cpu", return_value=False):
        module, program = distributed(lambda x: x.cumsum(1), (x,))
    (found,) = Simulated(module, program)(x)
    torch.testing.assert_close(found, x.double().cumsum(1).float(), rtol=1e-5, atol=1e-4)
    assert 1 < len(program.steps) <= 4
