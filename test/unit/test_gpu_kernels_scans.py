"""Tests GPU kernels that compute cumulative sums: all threads of a program work on a row, which is read once."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from kernel_inputs import BF16, labels, run, x
from torch import Tensor

CASES: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
    "part of a warp": (lambda a: a.cumsum(-1), x(33, 40)),
    "packed": (lambda a: a.cumsum(-1), x(9, 33)),
    "several warps": (lambda a: a.cumsum(-1), x(5, 1024)),
    "a loop": (lambda a: a.cumsum(-1), x(3, 9000)),
    "rows that start amid accesses": (lambda a: a.cumsum(-1), x(3, 5001)),
    "of a constant": (lambda a: torch.ones_like(a).cumsum(-1) - 1, x(4, 600)),
    "of a constant, by a row": (lambda a: (torch.ones_like(a).cumsum(-1) - 1) * a[:1], x(4, 600)),
    "of a constant down columns": (lambda a: torch.full_like(a, 2.0).cumsum(0) + a, x(70, 9)),
    "integers": (lambda a: a.cumsum(-1), labels(300, 9).view(3, 100)),
    "of truth values": (lambda a: (a > 0).cumsum(-1), x(7, 500)),
    "half type": (lambda a: a.cumsum(-1), x(7, 500, dtype=BF16)),
    "after a softmax": (lambda a: torch.softmax(a, -1).cumsum(-1), x(9, 777)),
    "one row": (lambda a: a.cumsum(0), x(3000)),
    "down columns": (lambda a: a.cumsum(0), x(65, 70)),
    "in the middle": (lambda a: a.cumsum(1), x(3, 20, 17)),
    "between a norm and what follows": (lambda a: F.layer_norm(a, (200,)).cumsum(-1).sigmoid() * a, x(9, 200)),
    "of a norm along another axis": (lambda a: F.layer_norm(a, (20,)).cumsum(0), x(9, 20)),
    "before a softmax": (lambda a: torch.softmax(a.cumsum(-1), -1), x(9, 300)),
    "behind one along a single element": (lambda a: F.gelu(a.unsqueeze(1).cumsum(1)).cumsum(0), x(5, 127)),
    "with what follows": (lambda a: F.gelu(a.cumsum(-1)) * a, x(5, 1027)),
    "greatest so far": (lambda a: a.cummax(-1).values, x(5, 1027)),
    "greatest so far, down columns": (lambda a: a.cummax(0).values, x(65, 70)),
    "where the least was met": (lambda a: a.round().cummin(-1).indices, x(5, 1027)),
    "log of sums of exponentials": (lambda a: torch.logcumsumexp(a * 9, -1), x(5, 1027)),
    "log of sums of exponentials, packed": (lambda a: torch.logcumsumexp(a * 9, -1), x(33, 40)),
    "log of sums of exponentials, a loop": (lambda a: torch.logcumsumexp(a, -1), x(2, 9000)),
    "log of sums of exponentials, half type": (lambda a: torch.logcumsumexp(a, -1), x(7, 1000, dtype=BF16)),
    "log of sums of exponentials, stored across": (lambda a: torch.logcumsumexp(a, 1).t().contiguous(), x(65, 70)),
    "log of sums of exponentials, of infinities": (
        lambda a: torch.logcumsumexp(torch.where(a.abs() < 0.3, a / 0, a * 50), -1),
        x(90, 200).index_fill(0, torch.arange(30), -torch.inf),
    ),
    "log of sums of exponentials, down columns": (lambda a: torch.logcumsumexp(a, 0), x(65, 70)),
    "down columns with what follows": (lambda a: F.gelu(a.cumsum(0)) * a, x(65, 70)),
    "along a part of what follows": (lambda a: F.silu(a.view(6, 4, 33).cumsum(1).flatten()), x(792)),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    fn, a = CASES[name]
    run(fn, a)


def test_a_row_is_read_once_in_whole_accesses() -> None:
    (found,) = run(lambda a: a.cumsum(-1), x(9, 4096)).results
    assert set(found.loads[0].accesses) == set(found.stores[1].accesses) == {16}
    assert found.loads[0].sectors == found.stores[1].sectors == 9 * 4096 * 4 // 32
    assert found.threads == 256


@pytest.mark.parametrize("dim", [0, 1])
def test_what_follows_is_computed_with_the_scan(dim: int) -> None:
    def both(a: Tensor) -> tuple[Tensor, Tensor]:
        total = a.cumsum(dim)
        return total, F.gelu(total)

    assert len(run(both, x(64, 128)).results) == 1


@pytest.mark.parametrize("dim", [0, 1])
def test_the_greatest_and_where_it_was_met_are_one_kernel(dim: int) -> None:
    assert len(run(lambda a: tuple(a.cummax(dim)), x(64, 128)).results) == 1


def test_a_log_of_sums_is_one_kernel() -> None:
    (found,) = run(lambda a: torch.logcumsumexp(a, -1), x(9, 1024)).results
    assert found.loads[0].sectors == found.stores[1].sectors == 9 * 1024 * 4 // 32


def test_a_softmax_and_its_running_sum_are_one_kernel() -> None:
    assert len(run(lambda a: torch.softmax(a, -1).cumsum(-1), x(64, 128)).results) == 1


def test_columns_are_read_once() -> None:
    (found,) = run(lambda a: a.cumsum(0), x(64, 128)).results
    assert found.loads[0].sectors == found.stores[1].sectors == 64 * 128 * 4 // 32
