"""Tests kernels whose rows have a known length, for few and for many of them. Values are compared with float64."""

from dataclasses import replace

import pytest
import torch
from sized_programs import compiled, kernels, launches
from torch import Tensor

from lamina.core.gpu import Gpu
from lamina.frontend.compiling.worker import finish

__all__ = ["kernels", "launches"]

AMOUNTS = (2, 3, 8, 9, 40, 131, 132, 200)
"""Rows within each range, at its ends and past them."""

KERNELS = {
    "largest": lambda x: x.amax(1),
    "mean": lambda x: x.mean(1),
    "logsumexp": lambda x: x.logsumexp(1),
    "sum": lambda x: x.square().sum((0, 1)),
    "softmax": lambda x: x.softmax(-1),
    "norm": lambda x: x.norm(dim=-1),
    "sorted": lambda x: x.sort(-1)[0].sum(1),
}
FEWER = {"sorted": 3}
"""SMs, so that a call of the kernel for any number is small: it runs a cluster for each element of a row, 41,920 of them on 132 SMs."""


@pytest.mark.parametrize("name", KERNELS)
def test_any_number_of_rows(name: str, kernels: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every number is computed by the kernel for any number and by the one for its range."""
    gpu = Gpu.named
    monkeypatch.setattr(Gpu, "named", staticmethod(lambda arch: replace(gpu(arch), sm_count=FEWER.get(name, gpu(arch).sm_count))))
    scale = torch.linspace(-1, 2, 64)

    def rows(x: Tensor) -> Tensor:
        return KERNELS[name](x[..., None] * scale.to(x.dtype))

    run = compiled(rows)
    for amount in AMOUNTS:
        x = torch.randn(amount, 5)
        want = rows(x.double())
        for _ in range(2):
            got = run(x)
            assert (got - want).abs().max() <= 3e-6 * want.abs().max()
            finish()
