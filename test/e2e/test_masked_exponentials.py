"""Tests that exponentials of what a mask has set to -inf take no longer than others: scaling a number to one below the denormals is
microcode on x86."""

import time
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lamina  # noqa: F401  # the backend's name


def _seconds(run: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(30):
        start = time.thread_time()
        run()
        best = min(best, time.thread_time() - start)
    return best


@pytest.mark.parametrize("fn", [torch.exp, torch.exp2, lambda x: torch.softmax(x, -1)], ids=["exp", "exp2", "softmax"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_time_of_masked_elements(fn: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    if fn is torch.exp2 and dtype is torch.float64:
        pytest.skip("torch's exp2 of f64 is not part of kernels")
    torch._dynamo.reset()
    run, threads = torch.compile(lambda x: fn(x) * 2, backend="lamina"), torch.get_num_threads()
    x = torch.randn(256, 512, dtype=dtype)
    masked = x.masked_fill(torch.ones(256, 512, dtype=torch.bool).triu(1), -torch.inf)
    torch.testing.assert_close(run(masked), fn(masked) * 2)
    torch.set_num_threads(1)
    try:
        assert _seconds(lambda: run(masked)) < 2 * _seconds(lambda: run(x))
    finally:
        torch.set_num_threads(threads)
