"""Tests arguments that are partly written in place on a GPU, also by programs that run as CUDA graphs."""

import pytest
import torch
from torch import Tensor

import lamina
from lamina.core.options import CudaGraphs


def step(x: Tensor, cache: Tensor, at: Tensor) -> Tensor:
    cache.index_copy_(1, at, (x @ x.mT)[:, :1, :8])
    return torch.softmax(cache @ cache.mT, -1).sum(1) + cache.amax(2)


def memory(odd: bool) -> Tensor:
    """A cache (2, 24, 8), which begins at an odd place or at one that kernels count on."""
    return torch.randn(2 * 24 * 8 + 1, device="cuda")[int(odd) :][: 2 * 24 * 8].view(2, 24, 8)


@pytest.mark.parametrize("graphs", [True, False], ids=["recorded", "step by step"])
@pytest.mark.parametrize("odd", [False, True], ids=["aligned", "misaligned"])
@pytest.mark.parametrize("caches", [1, 2, 12])
@pytest.mark.parametrize("entry_point", ["torch.compile", "lamina.compile"])
def test_the_argument_is_written(entry_point: str, caches: int, odd: bool, graphs: CudaGraphs) -> None:
    """The calls use one cache, several in turn, or a new one each time."""
    held = [memory(odd) for _ in range(caches)]
    x, at = torch.randn(2, 16, 32, device="cuda"), torch.tensor([3], device="cuda")
    options = {"cache": False, "cuda_graphs": graphs}
    with torch.no_grad():
        torch._dynamo.reset()
        example = (x, held[0].clone(), at)
        run = (
            torch.compile(lambda *args: step(*args), backend="lamina", dynamic=False, options=options)
            if entry_point == "torch.compile"
            else lamina.compile(lambda *args: step(*args), example, options=options)
        )
        for n in range(24):
            cache, x, at = held[n % caches], torch.randn(2, 16, 32, device="cuda"), torch.tensor([n], device="cuda")
            own = cache.clone()
            found, want = run(x, cache, at), step(x, own, at)
            torch.testing.assert_close(found, want, rtol=1e-3, atol=1e-3)
            torch.testing.assert_close(cache, own, rtol=1e-4, atol=1e-4)
