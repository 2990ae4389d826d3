"""Tests that models compiled by `lamina.compile` notice changes of modes, hooks, autocast and tied weights at each call."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from ahead_of_time import ahead, gradients, x
from entry_points import same
from torch import Tensor, nn
from torch.nn.modules import module as module_hooks

import lamina


def test_modes_of_submodules_are_seen() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Sequential(nn.Dropout(0.5)))
    twin = copy.deepcopy(model)
    compiled = ahead(model.eval(), x(2, 3, 6, 6))
    twin.eval()
    for change in (
        lambda m: m[1].train(),
        lambda m: m[1].eval(),
        lambda m: m.train(),
        lambda m: (m.train(), m[2][0].eval()),
        lambda m: m[1].eval(),
    ):
        change(model), change(twin)
        if twin[2][0].training:
            continue
        a = x(2, 3, 6, 6)
        same(compiled(a), twin(a))
        for found, expected in zip(model.buffers(), twin.buffers(), strict=True):
            torch.testing.assert_close(found, expected)


def test_modes_of_modules_that_a_closure_or_a_list_holds() -> None:
    inner = nn.Dropout(0.5).eval()
    held = [nn.BatchNorm1d(4).eval()]
    compiled = ahead(lambda a: held[0](inner(a)), x(64, 4))
    a = x(64, 4)
    same(compiled(a), held[0](a))
    inner.train()
    assert (compiled(a) == 0).any()
    inner.eval()
    twin = copy.deepcopy(held[0]).train()
    held[0].train()
    same(compiled(a), twin(a))
    same(held[0].running_mean, twin.running_mean)


def test_hooks_are_seen() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    compiled = ahead(model, x(3, 4))
    a = x(3, 4)
    first = model[0].register_forward_hook(lambda module, args, output: output * 2)
    same(compiled(a), model(a))
    second = compiled.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    same(compiled(a), model(a))
    first.remove()
    third = model[0].register_forward_hook(lambda module, args, output: output * 5)
    same(compiled(a), model(a))
    second.remove()
    third.remove()
    same(compiled(a), model(a))


@pytest.mark.parametrize("model", [nn.Sequential(nn.Linear(3, 3), nn.ReLU()), lambda a: F.relu(a) * 2], ids=["module", "function"])
def test_hooks_of_all_modules_are_called(model: Callable[..., Any]) -> None:
    compiled = ahead(model, x(2, 3))
    for register, hook in (
        (module_hooks.register_module_forward_hook, lambda module, args, out: out + 1),
        (module_hooks.register_module_forward_hook, lambda module, args, out: out * 2),
        (module_hooks.register_module_forward_pre_hook, lambda module, args: (args[0] + 3,)),
        (module_hooks.register_module_full_backward_hook, lambda module, args, out: tuple(g * 2 for g in args)),
    ):
        a = x(2, 3)
        same(compiled(a), model(a))
        handle = register(hook)
        try:
            same(compiled(a), model(a))
            same(gradients(compiled, a), gradients(model, a))
            with pytest.raises(lamina.CompileError, match="hooks for all modules"):
                ahead(model, a)
        finally:
            handle.remove()
        same(compiled(a), model(a))


def test_backward_hooks_are_no_silent_loss() -> None:
    model = nn.Linear(4, 4)
    compiled = ahead(model, x(3, 4))
    model.register_full_backward_hook(lambda module, before, after: None)
    with pytest.raises(lamina.CompileError, match="backward hooks"):
        compiled(x(3, 4))
    with pytest.raises(lamina.CompileError, match="register_hook"):

        def hooked(a: Tensor) -> Tensor:
            b = a * 2
            b.register_hook(lambda grad: grad * 2)
            return b

        ahead(hooked, x(3).requires_grad_())


@pytest.mark.parametrize("grad", [False, True])
def test_autocast_at_the_call(grad: bool) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 3))
    with torch.set_grad_enabled(grad):
        compiled = ahead(model, x(5, 8))
        a = x(5, 8)
        for _ in range(2):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                same(compiled(a), model(a), rtol=2e-2, atol=2e-2)
            same(compiled(a), model(a))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            inside = ahead(model, x(5, 8))
            same(inside(a), model(a), rtol=2e-2, atol=2e-2)
        same(inside(a), model(a))
        if grad:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                found, expected = compiled(a).float().sum(), model(a).float().sum()
            mine = torch.autograd.grad(found, list(model.parameters()))
            theirs = torch.autograd.grad(expected, list(model.parameters()))
            same(list(mine), list(theirs), rtol=5e-2, atol=5e-2)


def test_weights_that_are_tied_and_untied() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(4, 4), nn.Linear(4, 4)
            self.down.weight = self.up.weight

        def forward(self, a: Tensor) -> Tensor:
            return self.down(self.up(a))

    model = Tied()
    compiled = ahead(model, x(3, 4))
    a = x(3, 4)
    same(compiled(a), model(a))
    model.down.weight = nn.Parameter(x(4, 4))
    same(compiled(a), model(a))
    model.up.weight = nn.Parameter(x(4, 4))
    same(compiled(a), model(a))
    model.up.weight = model.down.weight
    same(compiled(a), model(a))
    model.up = nn.Linear(4, 4)
    same(compiled(a), model(a))
    model.down.bias = None
    same(compiled(a), model(a))
    model.double()
    with pytest.raises(RuntimeError, match="dtype"):
        compiled(a)


def test_a_submodule_with_two_names() -> None:
    """Each of its parameters is one argument, so that no argument shares memory with what the model changes."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = self.again = nn.Linear(4, 4)
            self.register_buffer("total", torch.zeros(4))

        def forward(self, a: Tensor) -> tuple[Tensor, Tensor]:
            b = self.again(a)
            self.total.add_(a.detach().sum(0))
            return b.sin() + self.linear(b), b

    model = Model()
    twin = copy.deepcopy(model)
    with torch.no_grad():
        compiled = ahead(model, x(3, 4))
    for grad in (False, True, True):
        a = x(3, 4).requires_grad_(grad)
        with torch.set_grad_enabled(grad):
            one, other = compiled(a), twin(a)
        same((one, model.total), (other, twin.total))
        if grad:
            found, expected = (
                torch.autograd.grad((y * y).sum() + z.sum(), [a, *m.parameters()]) for (y, z), m in ((one, model), (other, twin))
            )
            same(found, expected)
    assert not compiled._current.traced.others
