"""Tests that weights are read at each call, whoever changed them, unless the user froze them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from entry_points import BACKEND, NO_CACHE
from torch import Tensor, nn

import lamina


class Layers(nn.Module):
    """A product and a convolution that are large enough to be packed."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(256, 256)
        self.convolution = nn.Conv2d(8, 8, 3)

    def forward(self, x: Tensor, image: Tensor) -> tuple[Tensor, Tensor]:
        return self.linear(x), self.convolution(image)


def by_numpy(weight: Tensor) -> None:
    weight.detach().numpy().reshape(-1)[77] = 100


def through_data(weight: Tensor) -> None:
    weight.data.view(-1)[77] = 100


def shared(weight: Tensor) -> None:
    """Writes to memory as another process would that maps it."""
    memory = torch.empty(0).set_(weight.untyped_storage(), 0, (weight.numel(),))
    memory[77] = 100


def compiled(entry_point: str, model: nn.Module, inputs: tuple[Tensor, ...], options: dict[str, Any]) -> Callable[..., Any]:
    if entry_point == "lamina.compile":
        return lamina.compile(model, inputs, options=options)
    torch._dynamo.reset()
    made: Callable[..., Any] = torch.compile(model, backend=BACKEND, options=options)
    return made


@pytest.mark.parametrize("entry_point", ["lamina.compile", "torch.compile"])
@pytest.mark.parametrize("write", [by_numpy, through_data, shared])
def test_every_write_is_seen(entry_point: str, write: Callable[[Tensor], None]) -> None:
    model, inputs = Layers(), (torch.randn(64, 256), torch.randn(2, 8, 32, 32))
    with torch.no_grad():
        run = compiled(entry_point, model, inputs, NO_CACHE)
        for _ in range(4):
            run(*inputs)
        for weight in (model.linear.weight, model.convolution.weight):
            weight.data = weight.data.share_memory_()
            write(weight)
        torch.testing.assert_close(run(*inputs), model(*inputs), rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("entry_point", ["lamina.compile", "torch.compile"])
def test_frozen_weights(entry_point: str) -> None:
    """Packed copies of the weights give the same results, and assigning another weight still takes effect."""
    model, inputs = Layers(), (torch.randn(64, 256), torch.randn(2, 8, 32, 32))
    with torch.no_grad():
        run = compiled(entry_point, model, inputs, {**NO_CACHE, "freeze_weights": True})
        for _ in range(3):
            torch.testing.assert_close(run(*inputs), model(*inputs), rtol=1e-4, atol=1e-4)
        model.convolution.weight = nn.Parameter(torch.randn(8, 8, 3, 3))
        model.linear.weight.mul_(2)
        torch.testing.assert_close(run(*inputs), model(*inputs), rtol=1e-4, atol=1e-3)


def test_arguments_are_never_frozen() -> None:
    x, weight = torch.randn(2, 8, 32, 32), torch.randn(8, 8, 3, 3)
    with torch.no_grad():
        run = lamina.compile(torch.nn.functional.conv2d, (x, weight), options={**NO_CACHE, "freeze_weights": True})
        for _ in range(3):
            run(x, weight)
        through_data(weight)
        torch.testing.assert_close(run(x, weight), torch.nn.functional.conv2d(x, weight), rtol=1e-4, atol=1e-2)
