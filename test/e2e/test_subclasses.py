"""Tests arguments that are not ordinary tensors: results are as in eager, or a TypeError names the kind."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from entry_points import by_dynamo, by_export, same
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.masked import masked_tensor
from torch.testing._internal.two_tensor import TwoTensor


def model(a: Tensor) -> Tensor:
    return a * 2 + 1


class Plain(torch.Tensor):
    pass


class Overriding(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.mul:
            return torch.full((4,), 7.0)
        return super().__torch_function__(func, types, args, kwargs or {})


class Weight(nn.Parameter):
    pass


def fake() -> Tensor:
    with FakeTensorMode():
        return torch.randn(8)[4:]


def masked() -> Tensor:
    return masked_tensor(torch.randn(4), torch.tensor([True, False, True, True]))


def resized() -> Tensor:
    a = torch.randn(8)[4:]
    a.untyped_storage().resize_(0)
    return a


FOREIGN: dict[str, tuple[Callable[[], Tensor], str]] = {
    "masked": (masked, "is a MaskedTensor"),
    "wrapper": (lambda: TwoTensor(torch.randn(4), torch.randn(4)), "is a TwoTensor"),
    "plain": (lambda: torch.randn(4).as_subclass(Plain), "is a Plain"),
    "overriding": (lambda: torch.randn(4).as_subclass(Overriding), "is a Overriding"),
    "resized": (resized, "has no memory"),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
@pytest.mark.parametrize("name", FOREIGN)
def test_compiled_ahead(name: str) -> None:
    make, message = FOREIGN[name]
    compiled = by_export(model, (torch.randn(4),))
    for grad in (False, True):
        with torch.set_grad_enabled(grad), pytest.raises(TypeError, match=message):
            compiled(make())
    a = torch.randn(4)
    same(compiled(a), model(a))


def test_a_fake_tensor_gets_a_fake_result() -> None:
    given = fake()
    with torch.no_grad():
        got = by_export(model, (torch.randn(4),))(given)
    assert type(got) is type(given) and got.shape == given.shape and got.dtype == given.dtype


TRANSFORMS = [torch.func.functionalize, torch.func.vmap, lambda f: lambda a: torch.func.jvp(f, (a,), (a,))]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transforms_of_what_is_compiled_ahead(transform: Callable[..., Any]) -> None:
    a = torch.randn(3, 4) if transform is torch.func.vmap else torch.randn(4)
    with torch.no_grad():
        same(transform(by_export(model, (torch.randn(4),)))(a), transform(model)(a))


@pytest.mark.parametrize("kind", [Plain, Overriding, TwoTensor])
@pytest.mark.parametrize("grad", [False, True])
def test_torch_compile_keeps_the_class(kind: Any, grad: bool) -> None:
    with torch.set_grad_enabled(grad):
        a = TwoTensor(torch.randn(4), torch.randn(4)) if kind is TwoTensor else torch.randn(4).as_subclass(kind)
        compiled = by_dynamo(model, (a,))
        wanted, got = model(a), compiled(a)
    assert type(got) is type(wanted)
    if kind is TwoTensor:
        same(got.a, wanted.a)
        same(got.b, wanted.b)
    else:
        same(got.as_subclass(Tensor), wanted.as_subclass(Tensor))


@pytest.mark.parametrize("entry_point", [by_export, by_dynamo])
@pytest.mark.parametrize("grad", [False, True])
def test_tangents_are_not_dropped(entry_point: Callable[..., Any], grad: bool) -> None:
    """They equal eager's, or an error is raised."""
    a = torch.randn(4).requires_grad_(grad)
    with torch.set_grad_enabled(grad):
        compiled = entry_point(model, (a,))
        compiled(a)
        with forward_ad.dual_level():
            same(compiled(a), model(a))
            dual = forward_ad.make_dual(a, torch.ones(4))
            if entry_point is by_export:
                same(forward_ad.unpack_dual(compiled(dual)).tangent, forward_ad.unpack_dual(model(dual)).tangent)
                return
            with pytest.raises((TypeError, RuntimeError), match="forward-mode tangent|forward mode AD"):
                compiled(dual)


def test_parameters_of_a_class_of_their_own() -> None:
    layer = nn.Linear(4, 3)
    layer.weight = Weight(layer.weight.detach())
    a = torch.randn(2, 4)
    for entry_point in (by_export, by_dynamo):
        compiled, gradient = entry_point(layer, (a,)), torch.randn(2, 3)
        same(compiled(a), layer(a))
        (found,), (wanted,) = [torch.autograd.grad(f(a), layer.weight, gradient) for f in (compiled, layer)]
        torch.testing.assert_close(found, wanted)
