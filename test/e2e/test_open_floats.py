"""Tests Python floats under dynamic=True, and floats that change from call to call: their values, and how often they compile."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from entry_points import BACKEND, NO_CACHE
from torch import Tensor, fx, nn
from torch.nn import functional as F
from watched import compiled_programs

from lamina.core.program import Program
from lamina.frontend.entry import dynamo
from lamina.frontend.rewrites.numbers import floats

pytestmark = pytest.mark.filterwarnings("ignore:lamina compiles this graph once per size")


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """Returns the programs that were compiled."""
    return compiled_programs(monkeypatch)


def _compiled(model: Any, dynamic: bool | None) -> Any:
    torch._dynamo.reset()
    return torch.compile(model, backend=BACKEND, options=NO_CACHE, dynamic=dynamic)


@pytest.mark.parametrize(
    "model",
    [nn.LayerNorm(5), nn.BatchNorm1d(5), nn.LeakyReLU(0.2), nn.Dropout(0.0), nn.Embedding(9, 5, max_norm=0.7)],
    ids=lambda model: type(model).__name__,
)
def test_modules(model: nn.Module) -> None:
    reference = copy.deepcopy(model)
    compiled = _compiled(model, True)
    for n in (3, 4)[: 1 + isinstance(model, nn.BatchNorm1d)]:
        x = torch.randint(9, (n,)) if isinstance(model, nn.Embedding) else torch.randn(n, 5, requires_grad=True)
        got, want = compiled(x), reference(x)
        torch.testing.assert_close(got, want)
        leaves = [*model.parameters()] or [x]
        references = [*reference.parameters()] or [x]
        for a, b in zip(
            torch.autograd.grad(got.square().sum(), leaves), torch.autograd.grad(want.square().sum(), references), strict=True
        ):
            torch.testing.assert_close(a, b)
    for (name, a), b in zip(model.state_dict().items(), reference.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, msg=name)


def _clamps(x: Tensor, f: float) -> Tensor:
    return (x.sin().clamp(min=f) * f).cos()


def _branches(x: Tensor, f: float) -> Tensor:
    return x * 2 if f > 0.45 else x * f


def _reads(x: Tensor, f: float) -> Tensor:
    return x * (x.detach().sum().item() + f)


@pytest.mark.parametrize(
    ("model", "programs"),
    [
        (lambda x, f: x * f + f**2, 4),
        (lambda x, f: F.leaky_relu(x, f), 4),
        (lambda x, f: (x * f, f * 2), 4),
        (lambda x, f: x * x.new_full((5,), f), 4),
        (_clamps, 6),  # a part before and one after the call that takes a number
        (_branches, 6),
        (_reads, 9 if torch.__version__ < "2.12" else 5),  # torch 2.11 compiles it once per value
        (lambda x, f: F.huber_loss(x, x.detach() * 0, delta=f), 8),  # torch branches on it: once per value
    ],
    ids=["product", "leaky_relu", "result", "full", "clamp", "branch", "item", "huber_loss"],
)
def test_a_float_that_changes(model: Callable[..., Any], programs: int, built: list[Program]) -> None:
    compiled = _compiled(model, True)
    for f in (0.5, 0.4, 0.75, 0.3):
        x = torch.randn(5, requires_grad=True)
        got, want = compiled(x, f), model(x, f)
        results = [(got, want)] if isinstance(want, Tensor) else list(zip(got, want, strict=True))
        for a, b in results:
            torch.testing.assert_close(a, b)
        a, b = results[0]
        torch.testing.assert_close(*(torch.autograd.grad(t.sum(), x)[0] for t in (a, b)))
    assert len(built) <= programs


@pytest.mark.parametrize("special", [-0.0, float("inf"), float("nan"), 1e300])
def test_special_values(special: float) -> None:
    compiled = _compiled(lambda x, f: x * f, None)
    for f in (0.5, 0.25, special, 0.0, special):
        x = torch.tensor([1.0, -2.0, 0.0])
        got, want = compiled(x, f), x * f
        torch.testing.assert_close(got, want, equal_nan=True)
        assert torch.equal(got.signbit(), want.signbit())


class _Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.norm = 0.5, nn.LayerNorm(5)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x) * self.scale


def test_floats_of_a_model_are_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    """As arguments, each would become a tensor at every call."""
    taken: list[int] = []
    per_size = dynamo.per_size

    def watched(gm: fx.GraphModule, trace: Any, inputs: Sequence[Any]) -> Any:
        run = per_size(gm, trace, inputs)
        taken.append(len(floats(gm, inputs)))
        return run

    monkeypatch.setattr(dynamo, "per_size", watched)
    model = _Scaled()
    compiled = _compiled(model, True)
    for n in (3, 4):
        x = torch.randn(n, 5)
        torch.testing.assert_close(compiled(x), model(x))
    assert taken == [0]


def test_a_float_of_a_model_that_changes(built: list[Program]) -> None:
    """From its second value on it is an argument: otherwise each new value would be compiled."""
    model = _Scaled()
    compiled = _compiled(model, True)
    for i in range(14):
        model.scale = 0.5 * 0.9**i
        x = torch.randn(3 + i % 2, 5)
        torch.testing.assert_close(compiled(x), model(x))
    assert len(built) <= 6  # the first value, the second, and for each of two sizes a constant and an argument
