"""Tests products with a symbolic number of rows or columns as Lamina's kernels: in Triton's interpreter against float64, and
compiled to cubins."""

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from sized_programs import compiled, launches, not_compiled
from torch import Tensor, nn

from lamina.core.gpu import Gpu
from lamina.core.program import Launch
from lamina.frontend.compiling.worker import finish
from lamina.schedules import product_classes
from lamina.schedules.contraction import GemmConfig
from lamina.schedules.product_classes import for_all_sizes
from lamina.schedules.product_cost import GemmWork

__all__ = ["launches", "not_compiled"]
F, BF16 = nn.functional, torch.bfloat16
PLAIN = GemmConfig(32, 32, 32, 4, 2)
SCHEDULES = {
    "blocks": PLAIN,
    "pointers": GemmConfig(32, 32, 32, 4, 2, descriptors=0),
    "persistent": GemmConfig(32, 32, 32, 4, 2, 8, 1),
    "one row of tiles at a time": GemmConfig(32, 32, 32, 4, 2, 1),
    "two parts": GemmConfig(32, 32, 32, 4, 2, 8, 1, 2),
    "ping-pong": GemmConfig(64, 64, 32, 4, 3, 8, 1, ping_pong=1),
}


class Layer(nn.Module):
    """A model of weights, whose sizes are fixed, and of what computes with them."""

    def __init__(self, compute: Callable[..., Tensor]) -> None:
        super().__init__()
        self.weight, self.bias = (nn.Parameter(torch.randn(*shape).to(BF16), False) for shape in ((72, 40), (72,)))
        self.compute = compute

    def forward(self, x: Tensor) -> Tensor:
        return self.compute(x, self.weight, self.bias)


MODELS: dict[str, Callable[..., Tensor]] = {
    "rows": lambda x, w, b: F.gelu(F.linear(x, w, b)),
    "no bias": lambda x, w, b: F.linear(x, w).float().sin(),
    "residual": lambda x, w, b: F.linear(F.linear(x, w), w.t().contiguous(), b[:40]) + x,
    "pair": lambda x, w, b: F.silu(F.linear(x, w[:36])) * F.linear(x, w[36:]),
    "halves": lambda x, w, b: F.glu(F.linear(x, w)),
    "columns": lambda x, w, b: (w @ x.reshape(-1, 40).t()).tanh(),
}


def agrees(model: nn.Module, run: Callable[..., Any], x: Tensor) -> None:
    with torch.no_grad():
        got, eager, want = run(x), model(x), copy.deepcopy(model).double()(x.double())
    assert got.shape == eager.shape and got.dtype == eager.dtype
    assert (got.double() - want).norm() <= 1.5 * (eager.double() - want).norm() + 1e-5 * want.norm()


@pytest.mark.usefixtures("not_compiled")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_any_number_of_rows(name: str, schedule: str, launches: list[Launch], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product_classes, "for_all_sizes", lambda *_, **__: SCHEDULES[schedule])
    monkeypatch.setattr(product_classes, "for_fewer", lambda *_, **__: [])
    model = Layer(MODELS[name])
    run = compiled(model)
    for batch, length in ((2, 5), (3, 33), (2, 2), (5, 64), (7, 19)):
        agrees(model, run, torch.randn(batch, length, 40).to(BF16))
    assert len(launches) == 5
    assert len({launch.grid for launch in launches}) > 1


@pytest.mark.usefixtures("not_compiled")
@pytest.mark.parametrize("name", MODELS)
def test_few_rows_have_a_kernel_of_their_own(name: str, launches: list[Launch], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product_classes, "for_all_sizes", lambda *_, **__: PLAIN)
    monkeypatch.setattr(
        product_classes, "for_fewer", lambda *_, **__: [(10, GemmConfig(16, 16, 32, 2, 2)), (64, SCHEDULES["persistent"])]
    )
    model = Layer(MODELS[name])
    run = compiled(model)
    found = []
    for batch, length in ((3, 33), (2, 5), (2, 6), (2, 32), (5, 13), (11, 1)):
        for _ in range(2):  # the kernel for all sizes serves the first call at others than were traced
            agrees(model, run, torch.randn(batch, length, 40).to(BF16))
            finish()
        found.append(re.search(r"_to_(\d+)$", launches[-1].kernel))
    assert [match and match[1] for match in found] == [None, "10", "64", "64", None, "64"]


def test_the_default_goes_down_to_the_cubin(launches: list[Launch]) -> None:
    run = compiled(nn.Sequential(nn.Linear(256, 512), nn.GELU()).to(BF16))
    with torch.no_grad():
        run(torch.randn(2, 3, 256).to(BF16))
    assert len(launches) == 1


def test_the_default_serves_all_sizes() -> None:
    gpu = Gpu.named("sm_90a")
    gelu = GemmWork(1, 64, 3072, 768, ops=21, writes=64 * 3072 * 2)
    chosen = for_all_sizes(gelu, gpu, rows=True)
    assert chosen is not None and chosen.parts == 1
    assert for_all_sizes(GemmWork(1, 8192, 3072, 768, ops=21, writes=8192 * 3072 * 2), gpu, rows=True) == chosen
    assert for_all_sizes(GemmWork(1, 64, 3072, 768, has_epilogue=False), gpu, rows=True) is None
