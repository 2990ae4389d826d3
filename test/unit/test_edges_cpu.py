"""Tests windows and slices across the edges of images on a CPU: blocks at edges and inside have separate loops."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import lamina

CASES: list[tuple[str, tuple[int, ...], Callable[[Tensor], Tensor]]] = [
    ("max 1d", (2, 3, 1000), lambda x: F.max_pool1d(x, 4, 2, 1)),
    ("max 1d of odd length", (2, 3, 777), lambda x: F.max_pool1d(x, 3, 2, 1, ceil_mode=True)),
    ("max 1d, wide steps", (1, 2, 2000), lambda x: F.max_pool1d(x, 7, 5, 3)),
    ("max 2d", (2, 3, 40, 300), lambda x: F.max_pool2d(x, 3, 2, 1)),
    ("max 2d, dilated", (1, 2, 33, 290), lambda x: F.max_pool2d(x, 3, 1, 1, 2)),
    ("average 2d", (2, 3, 41, 410), lambda x: F.avg_pool2d(x, 5, 2, 2)),
    ("average, counting zeros", (1, 2, 11, 200), lambda x: F.avg_pool2d(x, (3, 5), (2, 3), (1, 2), count_include_pad=False)),
    ("constants around", (2, 3, 10, 250), lambda x: F.pad(x, (3, 70, 1, 0), value=2.0) * 2),
    ("shift", (4, 500), lambda x: F.pad(x, (1, 0))[:, :-1] + x),
    ("two sides", (3, 200), lambda x: torch.cat([x[:, :90], x], 1).exp()),
    ("sums of windows", (2, 4, 300), lambda x: F.pad(x, (2, 2)).unfold(2, 5, 1).sum(-1)),
    ("sum along padded rows", (5, 300), lambda x: F.pad(x, (10, 100)).square().sum(1)),
    ("largest along padded rows", (5, 300), lambda x: F.pad(x, (100, 100), value=-1.0).amax(1)),
    ("rows of padded columns", (300, 130), lambda x: F.pad(x, (0, 70, 3, 3)).sum(0)),
    ("exponentials that sum to 1 along columns", (70, 77), lambda x: x.softmax(0)),
    ("exponentials kept of many rows", (3, 33, 200), lambda x: x.sinh().log_softmax(1).exp() * x),
    ("sums of 777 columns", (50, 777), lambda x: x.sum(0)),
    ("backwards", (3, 200), lambda x: F.pad(x.flip(1), (3, 70)) + F.pad(x[:, 1::2].flip(1), (73, 100))),
    ("rows padded to several programs of one size", (3, 262144), lambda x: F.pad(x[:, 1:-1], (1, 1)).exp()),
    ("two sides in several programs of one size", (65536,), lambda x: torch.cat((x[-1000:], x[:-1000])).exp()),
    ("half types", (2, 3, 1000), lambda x: F.max_pool1d(x.bfloat16(), 4, 2, 1).float()),
]


@pytest.mark.parametrize(("name", "shape", "f"), CASES, ids=[name for name, _, _ in CASES])
def test_edges(name: str, shape: tuple[int, ...], f: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(shape)
    x.view(-1)[::37] = float("-inf") if "max" in name else 0.0
    found = lamina.compile(f, (x,), options={"cache": False})(x)
    exact = f(x.double()) if name != "half types" else f(x)
    torch.testing.assert_close(found.double(), exact.double(), rtol=1e-6, atol=1e-5)
