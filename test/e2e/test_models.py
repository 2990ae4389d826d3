"""Compares the example models with eager and float64, through both entry points and without fallbacks."""

import copy
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import lamina
from lamina.tools.driver.model import build

MODELS = Path(__file__).parents[2] / "examples" / "models"
STRICT = lamina.Options(strict=True)

Made = tuple[nn.Module, tuple[Tensor, ...]]


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(MODELS)


def gpt2() -> Made:
    examples = import_module("gpt2")
    return examples.gpt2(27, examples.Config(vocabulary=211, context=31, width=36, heads=3, layers=2))


def resnet() -> Made:
    return import_module("resnet").resnet18(size=65, classes=11)


def mlp() -> Made:
    return import_module("mlp").mlp(13, 37, 101)


SMALL = [gpt2, resnet, mlp]


def float64(model: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    doubled = pytree.tree_map_only(Tensor, lambda t: t.double() if t.is_floating_point() else t, inputs)
    return copy.deepcopy(model).double()(*doubled)


def close(ours: Tensor, eager: Tensor, exact: Tensor, slack: float = 4) -> None:
    """Asserts that the error against float64 is at most eager's, up to a factor."""
    error, allowed = (ours.double() - exact).abs().max(), (eager.double() - exact).abs().max()
    assert error <= slack * allowed + 1e-6 * exact.abs().max()


@pytest.mark.parametrize("make", SMALL)
def test_ahead_of_time(make: Callable[[], Made]) -> None:
    model, inputs = make()
    with torch.no_grad():
        compiled = lamina.compile(model, inputs, options=STRICT)
        close(compiled(*inputs), model(*inputs), float64(model, inputs))


@pytest.mark.parametrize("make", SMALL)
def test_torch_compile(make: Callable[[], Made]) -> None:
    model, inputs = make()
    compiled = torch.compile(model, backend="lamina", options={"strict": True})
    with torch.no_grad():
        close(compiled(*inputs), model(*inputs), float64(model, inputs))


@pytest.mark.parametrize("make", SMALL)
def test_gradients(make: Callable[[], Made]) -> None:
    """In evaluation mode: with ResNet's batch statistics the float64 model would be another function."""
    model, inputs = make()
    exact = copy.deepcopy(model).double()
    ours = copy.deepcopy(model)
    torch.compile(ours, backend="lamina")(*inputs).square().mean().backward()
    model(*inputs).square().mean().backward()
    doubled = tuple(t.double() if t.is_floating_point() else t for t in inputs)
    exact(*doubled).square().mean().backward()
    for mine, eager, true in zip(ours.parameters(), model.parameters(), exact.parameters(), strict=True):
        assert mine.grad is not None and eager.grad is not None and true.grad is not None
        close(mine.grad, eager.grad, true.grad, slack=20)


@pytest.mark.parametrize(
    ("file", "factory", "result"),
    [("gpt2.py", "gpt2", (1, 128, 8192)), ("resnet.py", "resnet18", (1, 1000)), ("mlp.py", "mlp", (128, 256))],
)
def test_factories_are_what_opt_driver_takes(file: str, factory: str, result: tuple[int, ...]) -> None:
    model, inputs = build(str(MODELS / file), factory)
    with torch.no_grad():
        assert model(*inputs).shape == result
