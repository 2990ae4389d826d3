"""Tests norms and softmax whose input and result have different memory orders: one kernel reduces, another transposes. Compares
with float64."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import Simulated, distributed
from pairs import pairwise
from torch import Tensor


def norm_of_channels(x: Tensor) -> Tensor:
    return F.layer_norm(x.permute(0, 2, 3, 1), x.shape[1:2])


def softmax_of_rows(x: Tensor) -> Tensor:
    return x.softmax(-1).to(memory_format=torch.channels_last)


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {"norm": norm_of_channels, "softmax": softmax_of_rows}


@pytest.mark.parametrize(
    ("shape", "name", "swapped"), pairwise([(3, 67, 19, 19), (1, 40, 127, 13), (2, 256, 16, 9)], [*FUNCTIONS], [False, True])
)
def test_kernels(shape: tuple[int, ...], name: str, swapped: bool) -> None:
    x = torch.randn(shape)
    x = x.transpose(-1, -2) if swapped else x
    module, program = distributed(FUNCTIONS[name], (x,))
    (found,) = Simulated(module, program)(x)
    torch.testing.assert_close(found.double(), FUNCTIONS[name](x.double()), rtol=1e-5, atol=1e-5)
    assert len(program.steps) == (2 if x.numel() >= 1 << 16 else 1)
