"""Compares ops of two integers of different dtypes with eager: all in one graph for each dtype."""

import pytest
import torch
from torch import Tensor

DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool]
OPS = (
    "bitwise_and", "bitwise_or", "bitwise_xor", "add", "mul", "sub", "maximum", "minimum", "eq", "lt", "ge", "logical_and", "logical_xor",
    "div",
)  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "dynamic"), [*((dtype, False) for dtype in DTYPES), (torch.int16, True), (torch.bool, True)], ids=str
)
def test_pairs(dtype: torch.dtype, dynamic: bool) -> None:
    """The second operand has every dtype, with dimensions and without; in the latter case the first decides the dtype."""

    def fn(x: Tensor, *others: Tensor) -> list[Tensor]:
        found = []
        for y in others:
            for name in OPS:
                if not (name == "sub" and torch.bool in (x.dtype, y.dtype)):
                    found += [getattr(torch, name)(x, y), getattr(torch, name)(x, y[0, 0])]
        return found

    x = torch.randint(-300, 300, (5, 33)).to(dtype)
    others = [torch.randint(1, 300, (5, 33)).to(d) for d in DTYPES]
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend="lamina", dynamic=dynamic, options={"cache": False, "strict": True})
    torch.testing.assert_close(compiled(x, *others), fn(x, *others), rtol=1e-6, atol=0, equal_nan=True)  # 0 / 0


@pytest.mark.parametrize("number", [300, -200, 70001, 0x8085])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16], ids=str)
def test_numbers_out_of_range(dtype: torch.dtype, number: int) -> None:
    """Eager's kernels wrap a number around that the tensor's dtype does not hold."""

    def fn(x: Tensor) -> list[Tensor]:
        n = number
        divided = [x // n, torch.div(x, n, rounding_mode="trunc"), torch.fmod(x, n), x % n]
        return [*divided, x < n, x >= n, x == n, x != n, x + n, x * n, n - x, x & n, x | n, x ^ n]

    x = torch.randint(-300, 300, (5, 33)).to(dtype)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(fn, backend="lamina", options={"cache": False})(x), fn(x), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int64], ids=str)
def test_floats_that_scale_products_of_integers(dtype: torch.dtype) -> None:
    x, a, b = (torch.randint(0, 9, shape).to(dtype) for shape in ((3,), (3, 4), (4,)))

    def fn(x: Tensor, a: Tensor, b: Tensor) -> list[Tensor]:
        summed = torch.addbmm(a[:, :3], a[None], a.t()[None], alpha=1.7, beta=2.2)
        return [torch.addmv(x, a, b, alpha=0.6, beta=1.5), torch.addmv(x, a, b, alpha=2, beta=3), summed]

    torch._dynamo.reset()
    found = torch.compile(fn, backend="lamina", options={"cache": False})(x, a, b)
    torch.testing.assert_close(found, fn(x, a, b))
