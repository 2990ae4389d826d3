"""Tests tensors of more than 4 GiB, or of more than 2**31 elements: every kind of kernel reads and writes the far end."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from entry_points import by_export
from torch import Tensor

GIB = 1 << 30
SIDE = 32768  # whose square in f32 is 4 GiB
FAR = slice(-3, None)
BYTES, HALF = torch.int8, torch.bfloat16
ROOM = 64 * GIB
pytestmark = pytest.mark.usefixtures("room")


def filled(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Values that tell rows and columns apart, small enough to be exact in every type."""
    x = torch.empty(shape, dtype=dtype, device="cuda")
    rows, columns = torch.arange(shape[0], device="cuda") % 13, torch.arange(shape[-1], device="cuda") % 7
    x.view(shape[0], -1, shape[-1]).copy_((rows[:, None, None] - columns).to(dtype).expand(shape[0], 1, shape[-1]))
    return x


def scanned(x: Tensor) -> Tensor:
    return torch.cat([torch.zeros(x.shape[0], 1, device=x.device), x.narrow(1, 0, x.shape[1] - 1).cumsum(1)], 1)


ROWS: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...], torch.dtype]] = {
    "scan and concatenation": (scanned, (SIDE, SIDE), torch.float32),
    "scan and concatenation, small": (scanned, (3, 8192), torch.float32),
    "pointwise": (lambda x: (x * 2 + 1).relu(), (SIDE + 2, SIDE), torch.float32),
    "more than 2**31 elements": (lambda x: x * 2, (SIDE * 2 + 2, SIDE), BYTES),
    "more than 2**32 elements": (lambda x: x + 1, (SIDE * 4 + 2, SIDE), BYTES),
    "softmax": (lambda x: torch.softmax(x, -1), (SIDE * 2 + 2, SIDE), HALF),
    "odd rows": (lambda x: torch.softmax(x, -1), (SIDE * 2 + 2, SIDE + 1), HALF),
    "layer norm": (lambda x: F.layer_norm(x, x.shape[-1:]), (SIDE * 2 + 2, SIDE), HALF),
    "sums of rows": (lambda x: x.sum(-1), (SIDE * 2 + 2, SIDE), HALF),
    "padding": (lambda x: F.pad(x, (3, 2)), (SIDE + 2, SIDE), torch.float32),
    "slices": (lambda x: x[1:, 1:] * 2, (SIDE * 2 + 2, SIDE), HALF),
    "short rows": (lambda x: torch.softmax(x, -1), (GIB // 2, 7), HALF),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_their_own(name: str) -> None:
    """Each row of the result depends on the same row only: eager computes the last ones for comparison."""
    fn, shape, dtype = ROWS[name]
    x = filled(*shape, dtype=dtype)
    got = by_export(fn, (x,))(x)
    first = x.shape[0] - got.shape[0]  # rows of x that have none of the result
    for start in (0, shape[0] // 2, shape[0] - 3):
        mine, eager = got[start : start + 3 - first], fn(x[start : start + 3])
        torch.testing.assert_close(mine, eager, rtol=2e-2 if dtype is HALF else 1e-5, atol=1e-5)


def test_columns_are_summed_up() -> None:
    x = filled(SIDE * 2 + 2, SIDE, dtype=HALF)
    got = by_export(lambda x: x.sum(0, dtype=torch.float32), (x,))(x)
    torch.testing.assert_close(got[FAR], x[:, FAR].double().sum(0).float(), rtol=1e-4, atol=1)


def test_the_whole_is_summed_up() -> None:
    x = torch.ones(SIDE * 2, SIDE, dtype=BYTES, device="cuda")
    assert by_export(lambda x: x.sum(), (x,))(x).item() == 2 * SIDE * SIDE


def test_transposed() -> None:
    x = filled(SIDE * 2 + 2, SIDE, dtype=HALF)
    got = by_export(lambda x: (x.t() + 1).contiguous(), (x,))(x)
    assert torch.equal(got[FAR, FAR], x[FAR, FAR].t() + 1) and torch.equal(got[:3, :3], x[:3, :3].t() + 1)


def test_looked_up_and_gathered() -> None:
    table = filled(SIDE * 2 + 2, SIDE, dtype=HALF)
    at = torch.tensor([0, SIDE, len(table) - 1], device="cuda")
    assert torch.equal(by_export(F.embedding, (at, table))(at, table), table[at])
    across = at.view(-1, 1).expand(-1, 5).contiguous()
    got = by_export(lambda t, i: t.gather(0, i) + 1, (table, across))(table, across)
    assert torch.equal(got, table[at, :5] + 1)


def test_random_numbers_do_not_repeat() -> None:
    """The dropped elements of the last rows differ from those of rows 2**31 or 2**32 elements before."""
    x = torch.ones(SIDE * 4 + 2, SIDE, dtype=HALF, device="cuda")
    got = by_export(lambda x: F.dropout(x, 0.5), (x,))(x)
    last = got[-2:]
    assert all(not torch.equal(last, got[k : k + 2]) for k in (0, SIDE * 2))
    assert 0.45 < (last == 0).float().mean().item() < 0.55


def test_numbers_that_no_buffer_holds() -> None:
    x = torch.zeros(1 << 17, device="cuda")
    got = by_export(lambda x: torch.rand(1 << 17, 1 << 17, device=x.device).sum(-1) + x, (x,))(x)
    assert torch.unique(got).numel() > 1 << 10 and not torch.equal(got[: 1 << 15], got[1 << 15 : 1 << 16])


PRODUCTS: dict[str, tuple[tuple[int, int], tuple[int, int]]] = {
    "many rows": ((GIB // 8 + 5, 24), (24, 32)),
    "a long inner axis": ((64, GIB // 16), (GIB // 16, 48)),
    "a large result": ((SIDE * 2 + 2, 64), (64, SIDE)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    left, right = PRODUCTS[name]
    a, b = (filled(*shape, dtype=HALF) for shape in (left, right))

    def fn(a: Tensor, b: Tensor) -> Any:
        return (a @ b).relu() + 1

    got = by_export(fn, (a, b))(a, b)
    torch.testing.assert_close(got[FAR], fn(a[FAR], b), rtol=2e-2, atol=1e-2)


@pytest.mark.parametrize("groups", [1, 8], ids=["dense", "depthwise"])
def test_convolutions(groups: int) -> None:
    images = filled(33, 8, 4096, 2048, dtype=HALF).to(memory_format=torch.channels_last)  # more than 2**31 elements
    weight = torch.randn(8, 8 // groups, 3, 3, device="cuda", dtype=HALF)

    def fn(x: Tensor, w: Tensor) -> Tensor:
        return F.conv2d(x, w, padding=1, groups=groups).relu()

    got = by_export(fn, (images, weight))(images, weight)
    torch.testing.assert_close(got[-1:, :, FAR], fn(images[-1:], weight)[:, :, FAR], rtol=2e-2, atol=1e-2)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool) -> None:
    q, k, v = (torch.randn(2, 8, 512, 64, device="cuda", dtype=HALF).repeat(1100, 8, 1, 1) for _ in range(3))

    def fn(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    got = by_export(fn, (q, k, v))(q, k, v)
    torch.testing.assert_close(got[-1:], fn(q[-1:], k[-1:], v[-1:]), rtol=2e-2, atol=2e-3)
