"""Tests torch.empty and similar ops, whose results are written before they are read: they compile to kernels alone."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from entry_points import ENTRY_POINTS, as_eager
from torch import Tensor


def filled(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (
        torch.empty_like(x).fill_(1) + x,
        torch.ones_like(torch.empty_like(y)) * 2,
        torch.empty(2, 3, 4, 5, memory_format=torch.channels_last, dtype=torch.half).fill_(2),
        torch.zeros_like(torch.empty_strided((2, 3), (1, 2), dtype=torch.int32)),
        x.new_empty(3, 2).fill_(1),
        x.new_empty_strided((3, 2), (1, 3)).fill_(3),
        torch.empty(0, 3),
    )


@pytest.mark.parametrize("entry_point", ENTRY_POINTS.values(), ids=ENTRY_POINTS)
def test_what_is_made_empty_and_filled(entry_point: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_STRICT", "1")
    as_eager(entry_point, filled, torch.randn(33, 5), torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last))
