"""Tests reshapes of computed values over boundaries of their dimensions: kernels read the operands at positions that are one again, or
divide these, against float64 on the CPU and in the simulator of GPUs."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from kernel_inputs import run, x
from torch import Tensor

CASES: dict[str, Callable[[Tensor], Tensor]] = {
    "a copy": lambda a: (a * 2).reshape(9, -1).sum(1),
    "several steps": lambda a: (a.exp() + a.sin()).reshape(-1, 13).amax(1),
    "split, then joined": lambda a: (a + 1).reshape(10, -1).exp().reshape(15, -1).sum(1),
    "a factor for each row": lambda a: (a * torch.arange(6.0, dtype=a.dtype)[:, None, None]).reshape(9, -1).sum(1),
    "a factor for each column": lambda a: (a * torch.arange(13.0, dtype=a.dtype)).reshape(9, -1).sum(1),
    "by position": lambda a: (a + torch.arange(15.0, dtype=a.dtype)[:, None]).reshape(9, -1).sum(1),
    "of a transpose": lambda a: (a.transpose(0, 1) * 2).reshape(9, -1).sum(1),
    "of a slice": lambda a: (a[:, :12] * 2).reshape(8, -1).sum(1),
    "of padding": lambda a: F.pad(a.exp(), (1, 0)).reshape(9, -1).sum(1),
    "of parts": lambda a: torch.cat((a, a * 2), 1).reshape(9, -1).sum(1),
    "repeated": lambda a: (a[:1].exp().expand(6, 15, 13) * a).reshape(9, -1).sum(1),
    "of sums": lambda a: a.sum(0, keepdim=True).expand(6, 15, 13).reshape(9, -1).sum(1),
    "read by two kernels": lambda a: a.exp().reshape(9, -1).sum(1)[:, None, None] + a.exp()[0],
    "elements alone": lambda a: a.exp().reshape(9, 10, 13) - 1,
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_on_cpus(name: str, dynamic: bool) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(CASES[name], backend="lamina", dynamic=dynamic, options={"cache": False})
    a = torch.randn(6, 15, 13)
    torch.testing.assert_close(compiled(a).double(), CASES[name](a.double()), atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_on_gpus(name: str, dtype: torch.dtype) -> None:
    run(CASES[name], x(6, 15, 13, dtype=dtype))
