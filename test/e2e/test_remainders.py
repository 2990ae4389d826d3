"""Tests remainders of divisions of floats, which are exact, whatever the quotient. (Eager's are NaN beyond some.)"""

import numpy as np
import pytest
import torch
from torch import Tensor

import lamina  # noqa: F401  # the backend's name


def _any_bits(count: int, dtype: torch.dtype) -> Tensor:
    bits = {2: torch.int16, 4: torch.int32}[dtype.itemsize]
    return torch.randint(torch.iinfo(bits).min, torch.iinfo(bits).max, (count,)).to(bits).view(dtype)


def _special(count: int, dtype: torch.dtype) -> Tensor:
    of = torch.finfo(dtype)
    values = [torch.inf, -torch.inf, 0.0, -0.0, torch.nan, 3.0, of.tiny, of.max, -of.smallest_normal / 4]
    return torch.tensor(values, dtype=dtype)[torch.randint(0, len(values), (count,))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_remainders_are_exact(dtype: torch.dtype) -> None:
    def fn(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return torch.fmod(x, y), torch.remainder(x, y)

    torch._dynamo.reset()
    run = torch.compile(fn, backend="lamina", dynamic=True)
    for count in (1000, 77, 1):
        small = torch.randn(count).to(dtype)
        for x in (_any_bits(count, dtype), small * 100, _special(count, dtype)):
            for y in (_any_bits(count, dtype), small, _special(count, dtype), torch.randint(-3, 4, (count,)).to(dtype)):
                with np.errstate(invalid="ignore"):
                    exact = torch.from_numpy(np.fmod(x.double().numpy(), y.double().numpy())).to(dtype)
                floored = torch.where((exact != 0) & (exact.signbit() != y.signbit()), exact + y, exact)
                for mine, right in zip(run(x, y), (exact, floored), strict=True):
                    torch.testing.assert_close(mine, right, rtol=0, atol=0, equal_nan=True)
                    assert torch.equal(mine.signbit()[~right.isnan()], right.signbit()[~right.isnan()])
