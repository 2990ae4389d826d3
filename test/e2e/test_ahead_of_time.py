"""`lamina.compile` as the module that it stands for: what a call does depends on modes, grad mode, hooks, aliases and weights as they
are at the call."""

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from doors import NO_CACHE, same
from torch import Tensor, nn
from torch.nn.modules import module as module_hooks

import lamina
from lamina.frontend.trace import trace


def x(*shape: int) -> Tensor:
    return torch.randn(*shape)


def ahead(model: Callable[..., Any], *args: Any) -> Any:
    return lamina.compile(model, args, options=NO_CACHE)


def gradients(model: Callable[..., Any], *args: Tensor) -> tuple[Tensor, ...]:
    args = tuple(a.detach().clone().requires_grad_() for a in args)
    model(*args).sin().sum().backward()
    return tuple(a.grad for a in args)


class Doubled(torch.autograd.Function):
    """Its backward is not the derivative of its forward."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, scale: float) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(a)
        ctx.scale = scale
        return a.sin() * scale

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        (a,) = ctx.saved_tensors
        return grad * 7 * a, None


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return a.round(), a * 2

    @staticmethod
    def backward(ctx: Any, one: Tensor, two: Tensor) -> Tensor:  # type: ignore[override]
        return one + 3 * two


def with_block(a: Tensor) -> Tensor:
    with torch.no_grad():
        b = a * 2
        with torch.enable_grad():
            c = a * 5
    return b + a + c


@torch.no_grad()
def scale_of(a: Tensor) -> Tensor:
    return a.abs().max()


def straight_through(a: Tensor) -> Tensor:
    one, two = StraightThrough.apply(a * 3)
    return one * two


@pytest.mark.parametrize(
    "function",
    [
        with_block,
        lambda a: a / scale_of(a),
        lambda a: Doubled.apply(a, 3.0) * 2,
        straight_through,
        lambda a: a.detach() * a,
        lambda a: a * 2 if torch.is_grad_enabled() else a * 3,
        lambda a: torch.utils.checkpoint.checkpoint(torch.sin, a, use_reentrant=False) * a,
        lambda a: torch.utils.checkpoint.checkpoint(torch.sin, a, use_reentrant=True) * a,
    ],
    ids="block decorator function two-results detach asks checkpoint reentrant".split(),
)
def test_gradients_are_those_of_what_the_model_does(function: Callable[..., Any]) -> None:
    compiled = ahead(function, x(4, 5).requires_grad_())
    a = x(4, 5)
    for found, expected in zip(gradients(compiled, a), gradients(function, a), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    same(compiled(a), function(a))
    with torch.no_grad():
        same(compiled(a), function(a))


def test_spectral_norm_in_training() -> None:
    model = nn.utils.parametrizations.spectral_norm(nn.Linear(5, 4))
    twin = copy.deepcopy(model)
    compiled = ahead(model, x(3, 5))
    for mode in (True, True, False, True):
        model.train(mode)
        twin.train(mode)
        a = x(3, 5)
        same(compiled(a), twin(a))
        for found, expected in zip(gradients(compiled, a), gradients(twin, a), strict=True):
            torch.testing.assert_close(found, expected)
        for found, expected in zip(model.buffers(), twin.buffers(), strict=True):
            torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("grad", [False, True])
def test_aliases_of_the_example_are_not_kept(grad: bool) -> None:
    def function(a: Tensor, b: Tensor) -> Tensor:
        return a - 3 * b

    weight = nn.Parameter(x(4))
    model = nn.Linear(4, 4)
    with torch.set_grad_enabled(grad):
        t = x(4)
        for example in ((t, t), (t, t[:]), (weight, weight), (weight, weight.detach())):
            compiled = ahead(function, *example)
            a, b = x(4), x(4)
            for args in ((a, b), (a, a), (b, a), (a, a[:]), (weight, weight)):
                same(compiled(*args), function(*args))
        compiled = ahead(model, model.weight)
        a = x(4, 4)
        same(compiled(a), model(a))
        same(compiled(model.weight), model(model.weight))
        compiled = ahead(model, model.weight.detach())
        same(compiled(a), model(a))


def test_attention_to_itself_and_to_others() -> None:
    model = nn.MultiheadAttention(8, 2, batch_first=True)
    q, k, v = x(2, 3, 8), x(2, 3, 8), x(2, 3, 8)
    for mode in (True, False):
        model.train(mode)
        for example in ((q, q, q), (q, k, k), (q, k, v)):
            compiled = ahead(model, *example)
            for args in ((q, k, v), (q, q, q), (q, k, k), (k, q, k)):
                torch.testing.assert_close(compiled(*args)[0], model(*args)[0], rtol=1e-4, atol=1e-5)
                with torch.no_grad():
                    torch.testing.assert_close(compiled(*args)[0], model(*args)[0], rtol=1e-4, atol=1e-5)


def accumulates(a: Tensor, b: Tensor) -> Tensor:
    a.mul_(2)
    return a * b


@pytest.mark.parametrize("grad", [False, True])
def test_arguments_that_share_memory_and_change(grad: bool) -> None:
    compiled = ahead(accumulates, x(4), x(4))
    for make in (
        lambda: [x(4), x(4)],
        lambda: [x(4)] * 2,
        lambda: list(x(1, 4).expand(2, 4)),
        lambda: [(t := x(6))[:4], t[2:]],
        lambda: [(t := x(6))[2:], t[:4]],
    ):
        torch.manual_seed(5)
        mine = make()
        torch.manual_seed(5)
        theirs = make()
        same(compiled(*mine), accumulates(*theirs))
        same(mine, theirs)


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, a: Tensor) -> Tensor:
        self.total.add_(a)
        return a * self.total


def test_a_buffer_that_the_model_changes_as_input() -> None:
    for example in (x(4), None):
        model, twin = Counts(), Counts()
        compiled = ahead(model, model.total if example is None else example)
        for a in (x(4), None, x(4), None):
            model.total.add_(1), twin.total.add_(1)
            same(compiled(model.total if a is None else a), twin(twin.total if a is None else a))
            same(model.total, twin.total)


def test_memory_that_is_exchanged_by_data() -> None:
    """What is assigned to `data` of a parameter or buffer may share memory with an argument or with another tensor of the model."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(4))
            self.register_buffer("other", torch.zeros(4))

        def forward(self, a: Tensor) -> Tensor:
            self.seen.add_(1)
            return a * 2 + self.other

    model = Model()
    twin = copy.deepcopy(model)
    with torch.no_grad():
        compiled = ahead(model, x(4))
        for step in range(4):
            a = x(4)
            b = a.clone()
            for m, given in ((model, a), (twin, b)):
                if step == 1:
                    m.seen.data = given
                if step == 2:
                    m.other.data = m.seen.data
                if step == 3:
                    m.seen.data, m.other.data = torch.ones(8)[::2], torch.ones(4)
            same((compiled(a), a, model.seen), (twin(b), b, twin.seen))


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


def _frozen_half(a: Tensor, w: Tensor) -> Tensor:
    b = a @ w
    with torch.no_grad():
        c = (b @ w).sin()
    return b * c


def _frozen_half_in_autocast(a: Tensor, w: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        b = _frozen_half(a, w)
        with torch.autocast("cpu", enabled=False):
            return _frozen_half(b.float(), w) + _frozen_half(a, w)


def _autocast_in_frozen_half(a: Tensor, w: Tensor) -> Tensor:
    b = a @ w
    with torch.no_grad():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            c = (b @ w).sin()
        with torch.enable_grad():
            c = c * b
    return b * c


@pytest.mark.parametrize("around", [False, True])
@pytest.mark.parametrize("model", [_frozen_half, _frozen_half_in_autocast, _autocast_in_frozen_half])
def test_grad_modes_inside_autocast(model: Callable[..., Tensor], around: bool) -> None:
    """What ran under no_grad is a constant for gradients, in a region of autocast too."""
    a, w = x(4, 4).requires_grad_(), x(4, 4).requires_grad_()
    compiled, weight = ahead(model, a, w), x(4, 4)
    with torch.autocast("cpu", torch.bfloat16, enabled=around):
        mine, theirs = compiled(a, w), model(a, w)
        frozen = ahead(lambda a, w: model(a, w).detach(), a, w)(a, w)
    assert mine.dtype == theirs.dtype and mine.requires_grad and not frozen.requires_grad
    same([mine, frozen], [theirs, theirs.detach()], rtol=5e-2, atol=5e-2)
    found = torch.autograd.grad(mine, (a, w), weight.to(mine.dtype))
    expected = torch.autograd.grad(theirs, (a, w), weight.to(mine.dtype))
    same(list(found), list(expected), rtol=5e-2, atol=0.1)


def test_a_buffer_assigned_after_a_region_of_another_grad_mode() -> None:
    class Assigns(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("state", torch.zeros(3, 4))

        def forward(self, a: Tensor) -> Tensor:
            with torch.enable_grad():
                a.cos()
            self.state = self.state + a.detach()
            return a * 2

    model, twin, a = Assigns(), Assigns(), x(3, 4)
    with torch.no_grad():
        compiled = ahead(model, a)
        for _ in range(2):
            same((compiled(a), model.state), (twin(a), twin.state))


def test_a_module_with_two_names_is_the_models_own() -> None:
    """torch.export calls proxies of modules then, which were taken for modules that are no part of the model."""

    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = self.again = nn.Linear(4, 4)

        def forward(self, a: Tensor) -> Tensor:
            return self.again(self.linear(a))

    assert trace(Shared(), (x(3, 4),), {}).others == ()


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
    """Its parameters and those of the model are arguments once, so that nothing shares memory with what the model changes."""

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


def test_another_dtype_of_the_model() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    compiled = ahead(lambda a: model(a.to(model[0].weight.dtype)).float(), x(3, 4))
    a = x(3, 4)
    same(compiled(a), model(a))
    compiled.to(torch.float64)
    assert model[0].weight.dtype is torch.float64
    same(compiled(a), model(a.double()).float())


_WEIGHT = nn.Parameter(torch.randn(4))


def test_parameters_of_closures_and_globals_get_gradients() -> None:
    weight = nn.Parameter(x(4))
    held = {"scale": [nn.Parameter(x(4))], "module": [nn.Linear(4, 4)]}
    plain = x(4)

    def function(a: Tensor) -> Tensor:
        return held["module"][0](a * weight + _WEIGHT) * held["scale"][0] + plain

    compiled = ahead(function, x(3, 4))
    leaves = [weight, _WEIGHT, held["scale"][0], *held["module"][0].parameters()]
    for _ in range(2):
        a = x(3, 4)
        found = torch.autograd.grad(compiled(a).sin().sum(), leaves)
        expected = torch.autograd.grad(function(a).sin().sum(), leaves)
        for mine, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(mine, theirs)
        with torch.no_grad():
            for leaf in leaves:
                leaf.mul_(0.5)
        same(compiled(a), function(a))


def test_a_compiled_model_inside_others() -> None:
    inner = ahead(nn.Linear(4, 4), x(3, 4))
    a = x(3, 4)
    for outer in (lambda b: inner(b) + 1, nn.Sequential(inner, nn.ReLU())):
        compiled = ahead(outer, x(3, 4))
        same(compiled(a), outer(a))
        assert len(list(compiled.parameters())) == 2
        for found, expected in zip(gradients(compiled, a), gradients(outer, a), strict=True):
            torch.testing.assert_close(found, expected)
        torch._dynamo.reset()
        same(torch.compile(outer, backend="eager")(a), outer(a))


def test_it_is_the_module_that_it_stands_for(tmp_path: Any) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    model.register_buffer("extra", torch.zeros(2))
    model.note = "kept"
    compiled = ahead(model, x(3, 4))
    assert isinstance(compiled, nn.Module)
    assert list(compiled.parameters()) == list(model.parameters())
    assert compiled.state_dict().keys() == model.state_dict().keys()
    assert [n for n, _ in compiled.named_modules()] == [n for n, _ in model.named_modules()]
    assert compiled.note == "kept" and compiled[0] is model[0] if hasattr(type(compiled), "__getitem__") else True
    compiled.note = "new"
    assert model.note == "new"
    assert compiled.eval() is compiled and not model.training and not compiled.training and not model[1].training
    compiled.train()
    assert model.training and model[1].training
    optimiser = torch.optim.SGD(compiled.parameters(), 0.1)
    compiled(x(3, 4)).sum().backward()
    optimiser.step()
    compiled.zero_grad()
    assert all(p.grad is None for p in model.parameters())
    compiled.load_state_dict({k: torch.ones_like(v) for k, v in model.state_dict().items()})
    compiled.eval()
    a = x(3, 4)
    expected = model(a)
    same(compiled(a), expected)
    twin = copy.deepcopy(compiled)
    torch.save(compiled, tmp_path / "model.pt")
    saved = torch.load(tmp_path / "model.pt", weights_only=False)
    loaded = pickle.loads(pickle.dumps(compiled))
    with torch.no_grad():
        model[0].weight.zero_()
    for other in (twin, saved, loaded):
        assert isinstance(other, type(compiled)) and not other.training
        same(other(a), expected)
    assert not torch.equal(compiled(a), expected)


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
    """Submodules, and modules that only a closure or a global variable holds."""
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


def test_keys_of_a_dictionary_in_another_order() -> None:
    def function(inputs: dict[str, Tensor], scale: float = 2.0) -> Tensor:
        return torch.cat([v * scale for v in inputs.values()])

    compiled = ahead(function, {"a": x(3), "b": x(4)})
    a, b = x(3), x(4)
    for inputs in ({"a": a, "b": b}, {"b": b, "a": a}):
        same(compiled(inputs), function(inputs))
        same(compiled(inputs, 2.0), function(inputs))
        same(compiled(inputs=inputs, scale=2.0), function(inputs))
    with pytest.raises(ValueError, match="scale"):
        compiled({"a": a, "b": b}, 3.0)
    with pytest.raises(TypeError):
        compiled({"a": a, "c": b})
    with pytest.raises(ValueError, match="shape"):
        compiled({"b": a, "a": b})


def test_defaults_may_be_given_or_left_out() -> None:
    def function(a: Tensor, mask: Tensor | None = None, *, scale: float = 1.5) -> Tensor:
        return a * scale

    a = x(4)
    for example in ((a,), (a, None)):
        compiled = ahead(function, *example)
        for call in ((lambda f: f(a)), (lambda f: f(a, None)), (lambda f: f(a, scale=1.5)), (lambda f: f(a=a, mask=None))):
            same(call(compiled), a * 1.5)


@pytest.mark.parametrize("value", [float("nan"), -0.0, 0.0, 1, True])
def test_numbers_are_what_they_were(value: float) -> None:
    compiled = ahead(lambda a, v: torch.copysign(a, torch.tensor(float(v))) if v == v else a, x(3), value)
    compiled(x(3), type(value)(value))
    for other in (-0.0, 0.0, 1, True, float("nan")):
        if repr(other) != repr(value):
            with pytest.raises((TypeError, ValueError), match="compile again"):
                compiled(x(3), other)


def test_example_inputs_do_not_live_on() -> None:
    model = nn.Linear(4, 4)
    example = x(3, 4)
    with torch.no_grad():
        compiled = ahead(model, example)
        compiled(example)
    compiled(example)
    gone = weakref.ref(example)
    del example
    gc.collect()
    assert gone() is None


def test_errors_while_another_thread_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a call is part of a larger trace is known of its own thread."""
    compiled = ahead(lambda a: a * 2, x(4))
    inside, done = threading.Event(), threading.Event()

    def slow(a: Tensor) -> Tensor:
        inside.set()
        assert done.wait(60)
        return a + 1

    thread = threading.Thread(target=lambda: ahead(slow, x(4)))
    thread.start()
    try:
        assert inside.wait(60)
        a = x(4)
        same(compiled(a), a * 2)
        with pytest.raises(ValueError, match="shape"):
            compiled(x(5))
    finally:
        done.set()
        thread.join()


def test_inside_transforms_and_modes() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    model = nn.Linear(4, 4)
    with torch.no_grad():
        compiled = ahead(model, x(3, 4))
        a = x(3, 4)
        compiled(a)
        same(torch.func.vmap(compiled)(a[None]), model(a)[None])
        same(torch.func.functionalize(compiled)(a), model(a))
        same(torch.func.jvp(compiled, (a,), (a,)), torch.func.jvp(model, (a,), (a,)))
        traced = make_fx(compiled)(a)
        assert any(node.target is torch.ops.aten.addmm.default for node in traced.graph.nodes)
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(a, a)
            same(torch.autograd.forward_ad.unpack_dual(compiled(dual)).tangent, F.linear(a, model.weight))


def test_subclasses_are_refused() -> None:
    class Tagged(Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return super().__torch_function__(func, types, args, kwargs or {})

    compiled = ahead(lambda a: a * 2, x(4))
    with pytest.raises(TypeError, match="'a' is a Tagged.*plain tensor"):
        compiled(x(4).as_subclass(Tagged))
    with pytest.raises(TypeError, match="Tagged"):
        ahead(lambda a: a * 2, x(4).as_subclass(Tagged))
