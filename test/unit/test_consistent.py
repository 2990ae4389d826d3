"""Tests that values that are compared for equality with their own maximum have the same bits in both kernels."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from kernel_inputs import x
from torch import Tensor

from lamina.core.options import Options
from lamina.core.target import Target
from lamina.frontend.entry.levels import emit

FUSED = re.compile(r"fma\.rn\.f32|div\.full\.f32|sqrt\.approx|\.approx\.f32")


def ratio(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return a * b / (c + a * b)


def hits(a: Tensor, b: Tensor, c: Tensor) -> Any:
    """Needs two kernels: the maxima of rows are inverted by a library before anything else is computed."""
    best = ratio(a, b, c).amax(-1, keepdim=True)
    return torch.linalg.inv(best @ best.t() + torch.eye(len(best))), (ratio(a, b, c) == best).sum()


EXTREMES: dict[str, Callable[..., Any]] = {
    "place of a maximum": lambda a, b, c: ratio(a, b, c).argmax(-1),
    "maximum and its place": lambda a, b, c: ((a + b) - 2 * c * a).max(-1),
    "place of a minimum of distances": lambda a, b, c: ((a - b) * (a - b) + c * c).sqrt().argmin(-1),
    "in two kernels": hits,
}


def ptx(function: Callable[..., Any], *inputs: Tensor) -> str:
    return emit(function, inputs, target=Target.parse("nvvm:sm_90a"), level="ptx", options=Options())


@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize("columns", [37, 9000])
def test_code_of_extremes(name: str, columns: int) -> None:
    inputs = x(600, columns), x(columns), x(600, columns)  # so many rows that they are not split, which would store the elements
    assert not FUSED.search(ptx(EXTREMES[name], *inputs))


def test_code_of_others() -> None:
    """A softmax subtracts its maximum, so approximations and fused multiply-adds are fine."""
    assert FUSED.search(ptx(lambda a, b, c: ratio(a, b, c).softmax(-1), x(16, 512), x(512), x(16, 512)))
