"""Compares matrix products by Lamina kernels, whatever tuning would choose, with float64."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import tiled
from torch import Tensor

from lamina.core.program_needs import with_needs
from lamina.core.target import Target
from lamina.runtime.executable import Executable
from lamina.targets.nvvm.backend import NvvmBackend

SCHEDULES = (
    "triton{m=128 n=128 k=64 warps=8 stages=4 resident=0}",
    "triton{m=128 n=128 k=32 warps=8 stages=3 resident=1 split=2}",
    "triton{m=64 n=64 k=64 warps=4 stages=4 descriptors=0}",
)


def chain(x: Tensor, w: Tensor) -> Tensor:
    return torch.relu(x @ w + 1) * 0.5


FUNCTIONS: dict[str, tuple[Callable[..., Tensor], int]] = {  # and how many weights they have
    "pair": (lambda x, a, b: F.silu(x @ a) * (x @ b), 2),
    "sum of rows": (lambda x, w: chain(x, w).float().sum(1), 1),
    "sum": (lambda x, w: chain(x, w).float().sum(), 1),
    "gelu": (lambda x, w: F.gelu(x @ w), 1),
}


def on_gpu(fn: Callable[..., Tensor], inputs: list[Tensor], schedule: str) -> Tensor:
    return all_on_gpu(fn, inputs, schedule)[0]


def all_on_gpu(fn: Callable[..., Tensor | tuple[Tensor, ...]], inputs: list[Tensor], schedule: str) -> list[Tensor]:
    """What Lamina's kernels compute, of the products at least."""
    return list(loaded(fn, inputs, schedule)(*inputs))


def loaded(fn: Callable[..., Tensor | tuple[Tensor, ...]], inputs: list[Tensor], schedule: str) -> Executable:
    """The program, ready to run."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("schedules here are for sm_90")
    module, program = tiled(fn, [x.cpu() for x in inputs], products=schedule)
    artifact = NvvmBackend(Target.parse("nvvm:sm_90a")).compile(module)
    run = Executable(with_needs(program, artifact.needs), artifact)
    run.load(0)
    return run


def check(name: str, dtype: torch.dtype, schedule: str) -> None:
    (fn, weights), (m, n, k) = FUNCTIONS[name], (1000, 520, 72)
    inputs = [torch.randn(m, k, device="cuda", dtype=dtype)]
    inputs += [torch.randn(k, n, device="cuda", dtype=dtype) * k**-0.5 for _ in range(weights)]
    found, want = on_gpu(fn, inputs, schedule), fn(*(x.double() for x in inputs))
    assert (found.double() - want).norm() < 5e-3 * want.norm()


@pytest.mark.parametrize("schedule", [*SCHEDULES, f"first {SCHEDULES[0]}"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_products(name: str, schedule: str) -> None:
    check(name, torch.bfloat16, schedule)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_rounded_to_tf32(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32")
    check(name, torch.float32, SCHEDULES[1])
