"""Tests attributes that forward assigns or changes, compiled by `lamina.compile`."""

import copy

import pytest
import torch
from ahead_of_time import ahead, x
from entry_points import same
from torch import Tensor, nn

import lamina


class Remembers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.h = torch.zeros(4)

    def forward(self, a: Tensor) -> Tensor:
        self.h = self.h + a
        return self.h * 2


class Grows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("h", torch.zeros(4))
        self.seen = torch.zeros(0, 4)

    def forward(self, a: Tensor) -> Tensor:
        self.h = self.h * 0.5 + a
        self.seen = torch.cat([self.seen, a[None]])
        return self.h * 2 + self.seen.sum(0)


@pytest.mark.parametrize("kind", [Remembers, Grows])
@pytest.mark.parametrize("grad", [False, True])
def test_tensors_that_forward_assigns(kind: type[nn.Module], grad: bool) -> None:
    model, twin = kind(), kind()
    with torch.set_grad_enabled(grad):
        compiled = ahead(model, x(4))
        same(model.h, twin.h)
        for _ in range(3):
            a = x(4)
            same(compiled(a), twin(a))
            same(model.h, twin.h)


_GLOBAL = Grows()


@pytest.mark.parametrize("grad", [False, True])
def test_tensors_that_other_modules_assign(grad: bool) -> None:
    """By submodules, and by modules that only a closure or a global variable refers to."""
    inner, other = Grows(), copy.deepcopy(_GLOBAL)
    twin = copy.deepcopy(inner)
    with torch.set_grad_enabled(grad):
        for compiled, model in (
            (ahead(nn.Sequential(inner, nn.ReLU()), x(4)), lambda a: twin(a).relu()),
            (ahead(lambda a: inner(a) * 2, x(4)), lambda a: twin(a) * 2),
            (ahead(lambda a: _GLOBAL(a) * 2, x(4)), lambda a: other(a) * 2),
        ):
            for _ in range(3):
                a = x(4)
                same(compiled(a), model(a))
        same([inner.h, inner.seen, _GLOBAL.h, _GLOBAL.seen], [twin.h, twin.seen, other.h, other.seen])


def test_a_buffer_that_was_assigned_keeps_its_old_memory() -> None:
    model, twin = Grows(), Grows()
    with torch.no_grad():
        compiled = ahead(model, x(4))
        for _ in range(3):
            old, a = model.h, x(4)
            kept = old.clone()
            same(compiled(a), twin(a))
            assert model.h is not old
            same(old, kept)


def test_a_result_that_is_given_twice() -> None:
    model = nn.Linear(4, 4)
    compiled = ahead(lambda a: (b := model(a), b, b + 1, 3), x(3, 4).requires_grad_())
    a = x(3, 4).requires_grad_()
    one, two, three, number = compiled(a)
    assert one is two and number == 3
    (found,) = torch.autograd.grad((one + 2 * two + 3 * three).sum(), a)
    torch.testing.assert_close(found, 6 * model.weight.sum(0).expand(3, 4))


def assigns(kind: str) -> nn.Module:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls, self.list, self.state = 0, [], {"x": 1}

        def forward(self, a: Tensor) -> Tensor:
            if kind == "number":
                self.calls += 1
            elif kind == "buffer":
                self.register_buffer("kept", a.detach() * 2)
            elif kind == "parameter":
                self.weight = nn.Parameter(a.detach() * 2)
            elif kind == "list":
                self.list.append(a)
            else:
                self.state["x"] = self.state["x"] + 1
            return a * 2

    return Model()


@pytest.mark.parametrize("kind", "number buffer parameter list dict".split())
def test_a_mutation_that_a_graph_does_not_keep_is_an_error(kind: str) -> None:
    model = assigns(kind)
    with pytest.raises(lamina.CompileError, match=r"forward changes .*torch\.compile"):
        ahead(model, x(4))
    assert model.calls == 0 and model.list == [] and model.state == {"x": 1} and not dict(model.named_buffers())
