"""Products whose kernels compute their factors, against float64."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from test_on_gpu_products import on_gpu
from torch import Tensor

SCHEDULES = (
    "prologue triton{m=16 n=32 k=128 warps=2 stages=5 descriptors=0}",
    "prologue triton{m=16 n=64 k=128 warps=4 stages=5 descriptors=0 parts=2}",
    "prologue triton{m=128 n=128 k=64 warps=4 stages=3}",
)
Inputs = Callable[[int, int, int], list[Tensor]]


def random(*shape: int) -> Tensor:
    return torch.randn(shape, device="cuda").bfloat16()


FUNCTIONS: dict[str, tuple[Callable[..., Tensor], Inputs]] = {
    "int8": (
        lambda x, w, s, b: F.silu(F.linear(x, w.to(x.dtype) * s[:, None], b)),
        lambda m, n, k: [random(m, k), torch.randint(-127, 128, (n, k), device="cuda").char(), random(n) * 1e-3, random(n)],
    ),
    "silu(gate) * up": (
        lambda g, u, w: F.linear(F.silu(g) * u, w),
        lambda m, n, k: [random(m, k), random(m, k), random(n, k) * k**-0.5],
    ),
    "norm": (
        lambda x, mean, rstd, w: ((x - mean) * rstd).to(w.dtype) @ w,
        lambda m, n, k: [random(m, k), random(m, 1), random(m, 1).abs(), random(k, n) * k**-0.5],
    ),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_prologues(name: str, schedule: str) -> None:
    fn, inputs = FUNCTIONS[name]
    given = inputs(40, 200, 544)
    found, want = on_gpu(fn, given, schedule), fn(*(x.double() if x.is_floating_point() else x for x in given))
    assert (found.double() - want).norm() < 1e-2 * want.norm()
