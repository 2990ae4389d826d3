"""Compares shifts of bits by numbers and tensors with eager, also by more than the number of bits."""

from typing import Any

import pytest
import torch
from torch import Tensor

DTYPES = [torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_shifts(dtype: torch.dtype, dynamic: bool) -> None:
    def fn(x: Tensor, n: Tensor) -> list[Any]:
        by_numbers = [shifted for k in (-3, 0, 1, 7, 8, 15, 31, 32, 63, 64) for shifted in (x << k, x >> k)]
        return [*by_numbers, x << n, x >> n, 3 << n, x.bitwise_left_shift(torch.tensor(3)), torch.bitwise_right_shift(-100, n)]

    limits = torch.iinfo(dtype)
    x = torch.randint(limits.min, limits.max, (5, 33), dtype=dtype)
    n = torch.randint(-70, 70, (5, 33)).to(dtype)
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend="lamina", dynamic=dynamic, options={"cache": False, "strict": True})
    for found, want in zip(compiled(x, n), fn(x, n), strict=True):
        assert found.dtype == want.dtype and torch.equal(found, want)
