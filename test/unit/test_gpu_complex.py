"""Tests complex numbers on a GPU: kernels compute both parts and store them as pairs; in the simulator, and compiled to cubins."""

import pytest
import torch
from kernel_inputs import run, x
from torch import Tensor, nn

from lamina.core.options import Options
from lamina.frontend.entry.levels import emit


def chain(a: Tensor, b: Tensor) -> Tensor:
    a, b = torch.view_as_complex(a), torch.view_as_complex(b)
    return torch.view_as_real(torch.exp(a * b * 0.2) * a.conj() - b)


@pytest.mark.parametrize("shape", [(4, 33), (64, 64), (3, 1), (1000,)])
def test_values(shape: tuple[int, ...]) -> None:
    program = run(chain, x(*shape, 2), x(*shape, 2))
    assert len(program.results) == 1


def test_sums() -> None:
    run(lambda a: torch.view_as_real(torch.view_as_complex(a * 2).square().sum(-1)), x(5, 300, 2))


class Transforms(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return torch.fft.ifft(torch.fft.fft(a) * b).abs(), a.exp() * b


def test_down_to_the_cubin() -> None:
    a, b = torch.randn(8, 256, dtype=torch.complex64), torch.randn(256, dtype=torch.complex64)
    assert "STG" in emit(Transforms(), (a, b), target="nvvm:sm_90a", level="sass", options=Options(cache=False))
