"""Kernels for GPUs that sum up along an axis: a row is the work of all threads of a program, and is read once."""

from collections.abc import Callable

import pytest
import torch
from kernel_inputs import BF16, labels, run, x
from torch import Tensor

CASES: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
    "part of a warp": (lambda a: a.cumsum(-1), x(33, 40)),
    "packed": (lambda a: a.cumsum(-1), x(9, 33)),
    "several warps": (lambda a: a.cumsum(-1), x(5, 1024)),
    "a loop": (lambda a: a.cumsum(-1), x(3, 9000)),
    "rows that start amid accesses": (lambda a: a.cumsum(-1), x(3, 5001)),
    "integers": (lambda a: a.cumsum(-1), labels(300, 9).view(3, 100)),
    "of truth values": (lambda a: (a > 0).cumsum(-1), x(7, 500)),
    "half type": (lambda a: a.cumsum(-1), x(7, 500, dtype=BF16)),
    "after a softmax": (lambda a: torch.softmax(a, -1).cumsum(-1), x(9, 777)),
    "one row": (lambda a: a.cumsum(0), x(3000)),
    "down columns": (lambda a: a.cumsum(0), x(65, 70)),
    "in the middle": (lambda a: a.cumsum(1), x(3, 20, 17)),
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


def test_columns_are_read_once() -> None:
    (found,) = run(lambda a: a.cumsum(0), x(64, 128)).results
    assert found.loads[0].sectors == found.stores[1].sectors == 64 * 128 * 4 // 32
