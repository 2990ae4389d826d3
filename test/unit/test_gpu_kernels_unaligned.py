"""Tests GPU kernels over rows that do not start at whole accesses: adjacent threads read adjacent elements, with several reads in
flight."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu_simulator import Result
from kernel_inputs import BF16, run, x
from pairs import pairwise
from torch import Tensor

from lamina.passes.space import vector_width as widths
from lamina.schedules import narrow, nvvm

SECTOR = 32


@pytest.fixture
def small_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes small tensors count as large enough to keep the GPU busy, so that they get the schedules of large ones."""
    for schedules in (nvvm, narrow):
        monkeypatch.setattr(schedules, "BUSY", 1)
    monkeypatch.setattr(widths, "RAGGED", 256)


def rms_norm(a: Tensor, w: Tensor) -> Tensor:
    y = a.float()
    return (y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6) * w).to(a.dtype)


CASES: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "rows apart": lambda a, w: F.elu(a[..., :-1]),
    "rows apart from odd elements on": lambda a, w: a[..., 1:-2] / 3.0,
    "two inputs, apart by different steps": lambda a, w: a[..., 1:-2] + torch.cat((a, a), -1)[..., 2 : a.shape[-1] - 1],
    "rows padded": lambda a, w: F.pad(a, (0, 6)),
    "rows padded in front": lambda a, w: F.pad(a * 2, (1, 2)),
    "rows beside one another": lambda a, w: torch.cat((a, a[..., :-1] + 1), -1),
    "a bias": lambda a, w: torch.relu(a + w),
    "a bias, and rows of their own": lambda a, w: a * w + a.new_ones(a.shape[:-1])[..., None],
    "a bias from an odd element on": lambda a, w: a * torch.cat((w, w)).view(2, -1)[1] + w.repeat(2)[1 : w.shape[0] + 1],
    "of other types": lambda a, w: (a[..., 1:] * 2.0).float() + w[1:].float(),
    "norms": lambda a, w: F.layer_norm(a[..., 1:] * 2, w[1:].shape, w[1:], w[1:]),
    "norms of whole accesses' rows": lambda a, w: F.softmax(a[..., : a.shape[-1] // 8 * 8], -1),
    "norms by mean squares": lambda a, w: rms_norm(a[..., 1:-2], w[1:-2]),
    "sums and what is summed": lambda a, w: (a[..., 1:].sum(-1), a[..., 1:] * 2),
    "sums down columns": lambda a, w: (a[..., 1:-2].float() * w[1:-2]).sum((0, 1)),
    "slices of rows in two orders": lambda a, w: a[:, ::2, 1:-2] + a[:, 1::2, :-3],
}  # fmt: skip
SHAPES = [(1, 2, 11), (3, 4, 70), (2, 20, 127), (2, 6, 387), (1, 2, 1003)]


@pytest.mark.parametrize(("name", "shape", "dtype"), pairwise([*CASES], SHAPES, [torch.float16, torch.float32]))
def test_values(small_gpu: None, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    run(CASES[name], x(*shape, dtype=dtype), x(shape[-1], dtype=dtype))


@pytest.mark.parametrize("name", ["rows apart", "rows padded", "a bias", "norms"])
@pytest.mark.parametrize("shape", [(3, 4, 3), (40, 25, 119)], ids=["short", "large"])
def test_values_where_the_gpu_has_more_threads(name: str, shape: tuple[int, ...]) -> None:
    run(CASES[name], x(*shape, dtype=BF16), x(shape[-1], dtype=BF16))


def in_flight(found: Result, elements: int) -> float:
    """Returns the number of elements per thread."""
    return elements / (found.ctas * found.threads)


@pytest.mark.parametrize(
    ("rows", "width", "fn", "each"),
    [
        (64, 120, lambda a: a[:, :119] * 2, 14),
        (64, 387, lambda a: a[:, 1:-2] / 3.0, 10),
        (64, 354, lambda a: F.pad(a, (0, 6)), 11),
        (64, 604, lambda a: F.pad(a, (0, 4)), 18),
        (64, 119, lambda a: F.pad(a, (0, 1)), 7),
    ],
    ids=["apart", "from odd elements on", "padded by 6", "padded by 4", "padded by 1"],
)
def test_narrow_accesses_are_neighbors(small_gpu: None, rows: int, width: int, fn: Callable[[Tensor], Tensor], each: float) -> None:
    """Adjacent threads write adjacent elements; a pair of elements that is not aligned is read by two accesses."""
    (found,) = run(fn, x(rows, width, dtype=torch.float16)).results
    read, written = found.loads[0], found.stores[1]
    assert written.sectors <= 1.4 * written.distinct_sectors
    assert read.sectors <= 3.1 * read.distinct_sectors
    assert in_flight(found, rows * width) >= each


def test_a_bias_of_odd_rows_leaves_whole_accesses(small_gpu: None) -> None:
    (found,) = run(lambda a, w: a + w, x(64, 119, dtype=torch.float16), x(119, dtype=torch.float16)).results
    assert set(found.loads[0].accesses) == set(found.stores[2].accesses) == {16}


@pytest.mark.parametrize(("rows", "width"), [(64, 119), (64, 67)])
def test_norms_take_a_sector_of_a_row_at_a_time(small_gpu: None, rows: int, width: int) -> None:
    """Two sectors if it starts in the middle of one; the last threads of a row have few elements."""
    (found,) = run(lambda a: F.softmax(a, -1), x(rows, width, dtype=torch.float16)).results
    for traffic in (found.loads[0], found.stores[1]):
        assert traffic.sectors <= 2.6 * rows * width * 2 / SECTOR


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64, torch.bool, torch.float64])
@pytest.mark.parametrize("size", [(257,), (1000,), (1003,), (33, 37), (9, 127, 3), (4097,)], ids=str)
def test_ends_amid_an_access(small_gpu: None, size: tuple[int, ...], dtype: torch.dtype) -> None:
    """Nothing is read or written past the end."""
    a = (x(*size) * 10).to(dtype)
    run(lambda a: ~a if dtype == torch.bool else a * 2 + 1, a)
    run(lambda a: (a.flip(0), torch.where(a > 0, a, a.flip(-1))), a)


def test_ends_amid_an_access_of_what_is_mixed(small_gpu: None) -> None:
    a, w = x(33, 37, dtype=torch.float16), x(37)
    run(lambda a, w: (a + w, a > w, a * w[:1]), a, w)
    run(lambda t, i: F.embedding(i, t) * 2, x(50, 3), torch.randint(0, 50, (11, 33)))
    run(lambda i, t: t[i] + i, torch.randint(0, 50, (1001,)), x(50))
    run(lambda a: torch.cat((a, a * 2), 0), a)


def test_only_the_last_access_is_cut(small_gpu: None) -> None:
    (found,) = run(lambda a: a * 2, x(33, 123, dtype=torch.float16)).results
    read, written = found.loads[0], found.stores[1]
    assert read.accesses[16] >= 33 * 123 // 8 and written.accesses == {16: 33 * 123 // 8, 2: 33 * 123 % 8}
