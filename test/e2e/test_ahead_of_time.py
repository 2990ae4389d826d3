"""Tests that the result of `lamina.compile` behaves as the module: gradients, parameters, copies, pickles, threads, transforms."""

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
from ahead_of_time import ahead, gradients, x
from entry_points import same
from torch import Tensor, nn


class Doubled(torch.autograd.Function):
    """A function whose backward is not the derivative of its forward."""

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
    optimizer = torch.optim.SGD(compiled.parameters(), 0.1)
    compiled(x(3, 4)).sum().backward()
    optimizer.step()
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
    """Whether a call is part of a larger trace is a property of its own thread."""
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
