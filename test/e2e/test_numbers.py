"""Tests Python numbers where ATen takes tensors, and torch's ops on numbers, through both entry points."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from entry_points import ENTRY_POINTS, Model, same
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

aten, prims = torch.ops.aten, torch.ops.prims

ON_NUMBERS: dict[str, Callable[[Tensor], Any]] = {
    "div": lambda x: x * torch.div(41, 4),
    "div trunc": lambda x: x * torch.div(41, 4, rounding_mode="trunc"),
    "div floor": lambda x: x * torch.div(-41.5, 4, rounding_mode="floor"),
    "floor_divide": lambda x: x * torch.floor_divide(7, 2),
    "number by tensor": lambda x: torch.div(7, x, rounding_mode="floor"),
    "remainder by tensor": lambda x: torch.remainder(7, x),
    "sqrt": lambda x: x * aten.sqrt.int(3),
    "NumToTensor": lambda x: (x + 1, torch.ops.prim.NumToTensor(3)),
    "in softmax": lambda x: torch.softmax(x * torch.div(40, 4, rounding_mode="trunc"), -1) @ x.t(),
}


@pytest.mark.parametrize("entry_point", ENTRY_POINTS.values(), ids=ENTRY_POINTS.keys())
@pytest.mark.parametrize("model", ON_NUMBERS.values(), ids=ON_NUMBERS.keys())
def test_numbers(entry_point: Callable[..., Model], model: Callable[[Tensor], Any]) -> None:
    for dtype in (torch.float32, torch.int64):
        x = (torch.rand(5, 3) * 9 + 1).to(dtype)
        try:
            want = model(x)
        except (RuntimeError, NotImplementedError):
            continue
        same(entry_point(model, (x,))(x), want)


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "squeeze": lambda x: prims.squeeze(x.sin(), [1]) * 2,
    "view_of": lambda x: prims.view_of(x.sin()) * 2,
    "split_dim": lambda x: prims.split_dim(x.sin(), 0, 2) * 2,
}


@pytest.mark.parametrize("model", VIEWS.values(), ids=VIEWS.keys())
def test_views_of_another_namespace(model: Callable[[Tensor], Tensor]) -> None:
    """AOTAutograd rejects these views in graphs from Dynamo."""
    x = torch.randn(6, 1, 3)
    same(ENTRY_POINTS["lamina.compile"](model, (x,))(x), model(x))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_nll_loss_of_one_sample(weighted: bool, reduction: int) -> None:
    """Its gradient uses the first target, and accepts a gradient of one element in any shape."""
    total = torch.rand(())

    def backward(grad: Tensor, x: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
        return aten.nll_loss_backward(grad, x, target, weight, reduction, -100, total)

    x, weight = torch.randn(3), torch.rand(3) if weighted else None
    for target, grad in (
        (torch.tensor([1, 0, 2]), torch.rand(())),
        (torch.tensor(1), torch.rand(1)),
        (torch.tensor(-100), torch.rand(1)),
    ):
        args = (grad, x, target, weight)
        same(ENTRY_POINTS["torch.compile"](backward, args)(*args), backward(*args))


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_nll_loss_trains_on_one_sample(reduction: str) -> None:
    def loss(x: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(x.log_softmax(0), target, reduction=reduction)

    x, target = torch.randn(7, requires_grad=True), torch.tensor(4)
    (got,) = torch.autograd.grad(ENTRY_POINTS["torch.compile"](loss, (x, target))(x, target), x)
    torch.testing.assert_close(got, torch.autograd.grad(loss(x, target), x)[0])


class Checkpointed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(4, eps=0.25)

    def forward(self, x: Tensor, scale: float, low: float) -> Tensor:
        y = checkpoint(self.norm, x, use_reentrant=False)
        return checkpoint(lambda a: a * scale + F.threshold(a, low, -scale), y, use_reentrant=False)


@pytest.mark.parametrize("dynamic", [None, True])
def test_floats_in_graphs_that_a_graph_calls(dynamic: bool | None) -> None:
    model = Checkpointed()
    compiled = torch.compile(model, backend="lamina", dynamic=dynamic, options={"cache": False})
    for rows, scale, low in ((3, 0.5, 0.125), (5, 0.5, 0.125), (5, 2.0, -0.25), (6, 3.0, -0.5)):
        x = torch.randn(rows, 4, requires_grad=True)
        got, want = compiled(x, scale, low), model(x, scale, low)
        same(got, want)
        same(torch.autograd.grad(got.sin().sum(), x), torch.autograd.grad(want.sin().sum(), x))
