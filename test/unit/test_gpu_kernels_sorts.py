"""Tests GPU kernels that sort rows in registers: one kernel computes the sort and the ops on its elements and indices."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from kernel_inputs import BF16, labels, run, x
from torch import Tensor


def stable(a: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, ...]:
    return tuple(torch.sort(a, stable=True, dim=dim, descending=descending))


def strange(*shape: int) -> Tensor:
    """Elements of which many are equal, with zeros of both signs, infinities and NaN."""
    special = torch.tensor([0.0, -0.0, torch.nan, torch.inf, -torch.inf])
    return torch.where(torch.rand(shape) < 0.3, special[torch.randint(0, 5, shape)], x(*shape).round())


CASES: dict[str, tuple[Callable[[Tensor], Any], Tensor]] = {
    "part of a warp": (stable, x(9, 64)),
    "a row for each thread": (stable, x(200, 3)),
    "single elements": (stable, x(4, 1)),
    "many rows": (stable, x(300, 33)),
    "several warps": (stable, x(3, 1000)),
    "as long as may be": (stable, x(2, 2048)),
    "one row": (stable, x(257)),
    "equal elements and zeros": (stable, strange(9, 60)),
    "descending": (lambda a: stable(a, -1, True), strange(9, 60)),
    "half type": (stable, x(9, 60, dtype=BF16)),
    "integers": (stable, labels(300, 9).view(3, 100).int()),
    "bytes": (lambda a: stable(a, -1, True), labels(300, 255).view(3, 100).to(torch.int8)),
    "truth values": (stable, x(3, 100) > 0),
    "down columns": (lambda a: stable(a, 0), x(40, 9)),
    "in the middle": (lambda a: stable(a, 1), x(3, 20, 5)),
    "of rows that a view joins": (lambda a: stable(a.transpose(1, 2).reshape(6, 64)), x(6, 8, 8)),
    "of a softmax": (lambda a: torch.sort(torch.softmax(a, -1))[0], x(9, 77)),
    "with what follows": (lambda a: F.gelu(torch.sort(a)[0]) * a, x(9, 77)),
    "that is stored across": (lambda a: torch.sort(a)[0].t().contiguous(), x(40, 64)),
    "that a view splits": (lambda a: torch.sort(a)[0].view(9, 8, 8).transpose(1, 2).contiguous(), x(9, 64)),
    "of a sort": (lambda a: torch.sort(torch.sort(a)[0].cos())[0], x(9, 64)),
    "and its running sum": (lambda a: torch.sort(a, descending=True)[0].cumsum(-1), x(9, 64)),
    "of which many are taken": (lambda a: tuple(torch.topk(a, 50)), x(9, 300)),
    "of which one is taken": (lambda a: torch.kthvalue(a, 5)[0], x(9, 300)),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    fn, a = CASES[name]
    run(fn, a)


def test_a_row_is_read_and_written_once_by_one_kernel() -> None:
    (found,) = run(lambda a: torch.sort(a)[0], x(4096, 64)).results
    assert found.loads[0].sectors == found.stores[1].sectors == 4096 * 64 * 4 // 32
    assert found.threads == 128


@pytest.mark.parametrize("name", ["argmax", "argmin", "max", "min"])
def test_extremes_of_columns_are_found_with_their_places(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each element is read once. NaN counts as both the greatest and the least."""
    monkeypatch.setattr("lamina.frontend.decompositions.ops.reduce.on_cpu", lambda x: False)

    def fn(a: Tensor) -> Any:
        found = getattr(a, name)(1)
        return found if isinstance(found, Tensor) else tuple(found)

    for a in (x(2, 65, 33).bfloat16(), labels(600, 9).view(2, 30, 10).int(), strange(3, 128, 64)):
        (found,) = run(fn, a).results
    assert found.loads[0].sectors == found.loads[0].distinct_sectors


def test_warps_in_step_of_other_widths() -> None:
    run(stable, x(3, 500), lanes=64)
