"""Products whose inner dimension is cut in parts, whatever tuning would choose, against float64."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from test_on_gpu_products import on_gpu
from torch import Tensor

PARTS = (
    "triton{m=16 n=64 k=128 warps=4 stages=5 descriptors=0 parts=4}",
    "triton{m=64 n=64 k=64 warps=4 stages=4 parts=8}",
)
FUNCTIONS: dict[str, tuple[Callable[..., Tensor], int]] = {  # and how many weights they have
    "product": (lambda x, w: x @ w, 1),
    "pair": (lambda x, a, b: F.silu(x @ a) * (x @ b), 2),
    "softmax": (lambda x, w: torch.softmax((x @ w).float(), 1), 1),
}


@pytest.mark.parametrize("schedule", PARTS)
@pytest.mark.parametrize("m", [1, 100])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_parts(name: str, m: int, schedule: str) -> None:
    (fn, weights), (n, k) = FUNCTIONS[name], (520, 4096)
    inputs = [torch.randn(m, k, device="cuda", dtype=torch.bfloat16)]
    inputs += [torch.randn(k, n, device="cuda", dtype=torch.bfloat16) * k**-0.5 for _ in range(weights)]
    found, want = on_gpu(fn, inputs, schedule), fn(*(x.double() for x in inputs))
    assert (found.double() - want).norm() < 5e-3 * want.norm()
    assert torch.equal(found, on_gpu(fn, inputs, schedule))
