"""Tests rows of symbolic length on a CPU: whole blocks, the remainder, and regions of padded or concatenated rows."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

OPTIONS = {"cache": False, "strict": True}
SIZES = ((6, 40), (70, 3), (5, 7), (4, 8), (33, 9), (2, 31), (3, 65), (4, 127), (3, 1000), (2, 4097))
CASES: dict[str, Callable[[Tensor], Tensor]] = {
    "scaled rows": lambda x: x * x[:, :1].exp(),
    "half types": lambda x: x * x[:, :1],
    "small integers": lambda x: (x * 10).to(torch.int8) // 3,
    "doubles": lambda x: x.double() * x[:, :1],
    "padded": lambda x: F.pad(x, (3, 5)).cos(),
    "padded columns": lambda x: F.pad(x.t(), (1, 1)).cos(),
    "padded by what the call decides": lambda x: F.pad(x, (x.shape[0], 1), value=2.0) + 1,
    "one behind the other": lambda x: torch.cat((x, x[:, :2] * 2, x.sin()), 1) + 1,
    "halves": lambda x: torch.cat((-x[:, x.shape[1] // 2 :], x[:, : x.shape[1] // 2]), 1) * x,
    "backwards, padded": lambda x: F.pad(x.flip(1), (2, 3)),
    "every second one": lambda x: x[:, 1::2] - x[:, : x.shape[1] // 2 * 2 : 2],
    "windows": lambda x: F.max_pool1d(x[None], 3, 2, 1),
    "wide windows": lambda x: F.avg_pool1d(F.pad(x, (2, 2))[None], 5, 1),
    "exponentials that are kept": lambda x: x.softmax(1),
    "sums of padded rows": lambda x: F.pad(x, (2, 9)).square().sum(1),
    "largest, and where": lambda x: x.amax(1) + x.argmax(1),
    "sums of columns": lambda x: x.exp().sum(0),
    "two sums of columns": lambda x: x.sum(0) / (x * x).sum(0),
    "running sums down columns": lambda x: x.cumsum(0),
    "exponentials down columns": lambda x: x.softmax(0),
    "variance": lambda x: F.layer_norm(x, x.shape[1:]),
    "rows of several axes": lambda x: torch.stack((x, x + 1)).transpose(0, 1) * x[:, None],
}


@pytest.mark.filterwarnings("error")  # such as that it is compiled per size
@pytest.mark.parametrize("name", CASES)
def test_rows(name: str) -> None:
    torch._dynamo.reset()
    function = CASES[name]
    compiled = torch.compile(function, backend="lamina", dynamic=True, options=OPTIONS)
    for sizes in SIZES:
        x = torch.randn(sizes, dtype=torch.bfloat16 if name == "half types" else None)
        got, want = compiled(x), function(x if name == "small integers" else x.double())
        assert got.shape == want.shape
        torch.testing.assert_close(got.double(), want.double(), rtol=2e-5 if x.dtype == torch.float32 else 4e-3, atol=2e-5)


@pytest.mark.parametrize("last", [4, 5])
def test_indices_are_checked_where_they_are_not_wanted(last: int) -> None:
    """Eager reads all rows of the table, also those that another tensor then replaces."""
    torch._dynamo.reset()

    def function(x: Tensor, table: Tensor, i: Tensor) -> Tensor:
        return torch.where(torch.arange(x.shape[0]) < x.shape[0] // 2, x, table[i])

    compiled = torch.compile(function, backend="lamina", dynamic=True, options=OPTIONS)
    x, table = torch.randn(20), torch.randn(5)
    i = torch.arange(20).remainder(4)
    i[0] = last
    if last < 5:
        assert torch.equal(compiled(x, table, i), function(x, table, i))
    else:
        with pytest.raises(IndexError):
            compiled(x, table, i)


def test_rows_that_are_too_long_to_be_kept() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x.softmax(1), backend="lamina", dynamic=True, options=OPTIONS)
    for sizes in ((3, 50), (2, 65536), (2, 65537), (2, 100_003)):
        x = torch.randn(sizes)
        torch.testing.assert_close(compiled(x).double(), x.double().softmax(1), rtol=1e-5, atol=1e-9)


def test_large_results_of_parts() -> None:
    """Parts may start anywhere in a cache line, and results of this size bypass the caches in whole lines."""
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: torch.cat([x + i for i in range(8)], 1), backend="lamina", dynamic=True, options=OPTIONS)
    for sizes in ((200, 1001), (3, 1000), (150, 1003)):
        x = torch.randn(sizes, dtype=torch.float64)
        assert torch.equal(compiled(x), torch.cat([x + i for i in range(8)], 1))


def test_without_rows() -> None:
    """A size that may be 0 must not be a divisor."""
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, y: x * y[:, :1], backend="lamina", options=OPTIONS)
    for sizes in ((4, 9), (0, 9), (3, 0), (0, 0)):
        x, y = torch.randn(sizes), torch.randn(sizes[0], 1)
        for dim in range(2):
            torch._dynamo.decorators.mark_unbacked(x, dim)
        torch._dynamo.decorators.mark_unbacked(y, 0)
        assert compiled(x, y).shape == sizes
