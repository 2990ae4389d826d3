"""Tests scans on a CPU along a contiguous dimension: prefix sums of blocks, including a partial one."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lamina

CASES: list[tuple[str, tuple[int, ...], torch.dtype, Callable[[Tensor], Tensor]]] = [
    ("sum", (5, 4000), torch.float32, lambda x: x.cumsum(1)),
    ("sum of few", (5, 17), torch.float32, lambda x: x.cumsum(1)),
    ("sum of fewer", (7, 9), torch.float32, lambda x: x.cumsum(1)),
    ("sum of one row", (1003,), torch.float32, lambda x: x.cumsum(0)),
    ("sum of columns", (300, 40), torch.float32, lambda x: x.cumsum(0)),
    ("sum of half types", (3, 100), torch.bfloat16, lambda x: x.cumsum(1)),
    ("sum of doubles", (3, 100), torch.float64, lambda x: x.cumsum(1)),
    ("sum of integers", (3, 130), torch.int64, lambda x: x.cumsum(1)),
    ("product", (3, 50), torch.float32, lambda x: x.cumprod(1)),
    ("sum of transposed", (64, 70), torch.float32, lambda x: x.t().cumsum(1)),
    ("between", (4, 333), torch.float32, lambda x: (x.sigmoid().cumsum(-1) * 2).exp().clamp(max=5.0)),
    ("largest of a scan", (4, 333), torch.float32, lambda x: x.cumsum(-1).amax(-1)),
    ("greatest so far", (4, 333), torch.float32, lambda x: x.cummax(-1).values),
    ("where the least was met", (40, 33), torch.float32, lambda x: x.round().cummin(0).indices.double()),
    ("sum of exponentials", (4, 333), torch.float32, lambda x: torch.logcumsumexp(x * 100, -1) / 100),
    ("sum of exponentials of columns", (33, 40), torch.float32, lambda x: torch.logcumsumexp(x * 100, 0) / 100),
    ("two scans", (4, 333), torch.float32, lambda x: x.cumsum(-1) / (x.abs().cumsum(-1) + 1)),
    ("flags", (4, 333), torch.float32, lambda x: (x > 0).cumsum(-1)),
]


@pytest.mark.parametrize(("name", "shape", "dtype", "f"), CASES, ids=[name for name, _, _, _ in CASES])
def test_scans(name: str, shape: tuple[int, ...], dtype: torch.dtype, f: Callable[[Tensor], Tensor]) -> None:
    x = torch.randint(-9, 9, shape) if dtype == torch.int64 else torch.randn(shape).to(dtype)
    found = lamina.compile(f, (x,), options={"cache": False})(x)
    exact = f(x.double()) if dtype.is_floating_point else f(x)
    tolerance = 1e-2 if dtype == torch.bfloat16 else 1e-6
    torch.testing.assert_close(found.double(), exact.double(), rtol=tolerance, atol=tolerance * 10)
