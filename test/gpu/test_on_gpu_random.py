"""Tests random numbers on the GPU: the CPU's for the same seed, new ones in every replay of a graph, and the same ones in
backward."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from entry_points import by_dynamo, by_export
from torch import Tensor, nn

import lamina
from lamina.frontend.fx.random_bits import draw_seed

ENTRY_POINTS = (by_export, by_dynamo)


def kept(x: Tensor, p: float) -> Tensor:
    """What the first dropout after manual_seed(3) keeps of a contiguous tensor."""
    torch.manual_seed(3)
    bits = torch.ops.lamina.random_bits(draw_seed(x.device), list(x.shape))
    return bits < round((1 - p) * 2**32) - 2**31


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(4096, 4096), (197, 197), (63, 1027), (1001,)])
def test_numbers_belong_to_elements(entry_point: Any, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = torch.rand(shape, device="cuda").to(dtype) + 1
    with torch.no_grad():
        run = entry_point(lambda x: F.dropout(x, 0.3), (x,))
        run(x)
        torch.manual_seed(3)
        y = run(x)
    mask = kept(x, 0.3)
    assert torch.equal(y != 0, mask)
    torch.testing.assert_close(y[mask], (x.double() / 0.7).to(dtype)[mask])


def test_rows_that_are_reduced_too() -> None:
    x = torch.randn(64, 1027, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        run = by_export(lambda x: F.dropout(torch.softmax(x, -1), 0.3), (x,))
        torch.manual_seed(3)
        y = run(x)
    mask = kept(x, 0.3)
    torch.testing.assert_close(y, torch.where(mask, torch.softmax(x.float(), -1) / 0.7, 0).bfloat16())


def test_backward_drops_what_forward_dropped() -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.LayerNorm(512), nn.Dropout(0.25)).cuda()
    x = torch.randn(300, 512, device="cuda", requires_grad=True)
    run = by_dynamo(model, (x,))
    for _ in range(3):
        y = run(x)
        (mine,) = torch.autograd.grad(y.square().sum(), x)
        inner, outer = mine != 0, y.detach() != 0
        again = x.detach().requires_grad_()
        exact = F.layer_norm(again * inner * 2, (512,)) * outer / 0.75
        torch.testing.assert_close(y, exact, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(mine, torch.autograd.grad(exact.square().sum(), again)[0], rtol=1e-3, atol=1e-4)
        assert abs(inner.double().mean().item() - 0.5) < 0.01


@pytest.mark.parametrize("ours", [False, True])
def test_every_replay_draws_anew(ours: bool) -> None:
    """In a graph of torch's and in Lamina's own."""
    x = torch.ones(1 << 16, device="cuda")
    with torch.no_grad():
        run = lamina.compile(lambda x: F.dropout(x * 2, 0.25).sum(0) + F.dropout(x, 0.5), (x,), options={"cuda_graphs": ours})
        run(x)
        if not ours:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = run(x)

        def call() -> Tensor:
            if ours:
                return run(x)
            graph.replay()
            return out.clone()

        for _ in range(20):
            call()
        torch.manual_seed(1)
        first, second = call(), call()
        torch.manual_seed(1)
        again = call()
    assert not torch.equal(first, second) and torch.equal(first, again)
