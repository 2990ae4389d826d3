"""Tests fold_weights: values computed from weights alone are computed once, at compile time."""

import torch
from torch import Tensor, nn

import lamina


class Scaled(nn.Module):
    """Computes exp of a small weight, and uses a larger weight that stays an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.randn(33))
        self.big = nn.Parameter(torch.randn(1000, 33))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.log_scale.exp() + self.big


def test_folded_weights_are_constants_of_the_program() -> None:
    model, x = Scaled(), torch.randn(1000, 33)
    before = model(x)
    with torch.no_grad():
        folded = lamina.compile(model, (x,), options={"fold_weights": 1024})
        torch.testing.assert_close(folded(x), before)
        model.log_scale.add_(1)
        model.big.add_(1)
        torch.testing.assert_close(folded(x), before + 1)  # the small one is a constant now, the big one is read


def test_without_the_option_weights_are_read() -> None:
    model, x = Scaled(), torch.randn(1000, 33)
    with torch.no_grad():
        compiled = lamina.compile(model, (x,))
        model.log_scale.add_(1)
        torch.testing.assert_close(compiled(x), model(x))
