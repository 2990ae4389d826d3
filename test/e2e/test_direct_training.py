"""Tests that training graphs that need none of AOTAutograd's wrappers are called without them, and behave as eager does."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from entry_points import same
from spying import spied
from torch import Tensor, nn
from torch.testing._internal.two_tensor import TwoTensor

from lamina.frontend.calls.direct_training import TrainingCall
from lamina.frontend.compiling.per_size import AllSizes, PerSize

CALLS = 4
"""The first goes through AOTAutograd's wrappers, as there is no backward graph yet."""


def is_direct(run: Any) -> bool:
    """Returns whether a call goes around AOTAutograd's wrappers."""
    if isinstance(run, PerSize):
        run = next(iter(run.variants.values()))
    if isinstance(run, AllSizes):
        run = run._run
    return isinstance(run, TrainingCall) and run._apply is not None


class Branchy(nn.Module):
    """A module with several results, one without gradient, and a buffer that each call changes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = self.norm(self.linear(x))
        return F.gelu(y), y.argmax(1), y.sin()


def twins(make: Callable[[], nn.Module]) -> tuple[nn.Module, nn.Module]:
    """Returns two modules with the same weights."""
    first, second = make(), make()
    second.load_state_dict(first.state_dict())
    return first, second


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Sequential(nn.Linear(8, 3), nn.ReLU()), (5, 8)),
    "batch norm": (lambda: nn.BatchNorm2d(3), (4, 3, 5, 7)),
    "convolution": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.GELU()), (2, 3, 9, 7)),
    "encoder layer": (lambda: nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), (2, 7, 16)),
    "several results": (Branchy, (6, 8)),
}


@pytest.mark.parametrize("name", MODULES)
def test_gradients_and_buffers(name: str) -> None:
    """Results, gradients, buffers and the buffers' versions equal eager's at every call."""
    make, shape = MODULES[name]
    eager, mine = twins(make)
    compiled, returned = spied(mine)
    for _ in range(CALLS):
        x = torch.randn(shape)
        got = _step(compiled, mine, x)
        same(got, _step(eager, eager, x))
    same(list(mine.buffers()), list(eager.buffers()))
    assert [b._version > 0 for b in mine.buffers()] == [b._version > 0 for b in eager.buffers()]
    assert len(returned) == 1 and is_direct(returned[0])


@pytest.mark.parametrize("name", MODULES)
def test_symbolic_sizes(name: str) -> None:
    """One compilation serves all sizes, called directly."""
    make, (_, *shape) = MODULES[name]
    wide, mine = twins(make)
    wide.double()
    compiled, returned = spied(mine, dynamic=True)
    for n in (4, 3, 2, 5, 3):
        x = torch.randn(n, *shape)
        for got, exact in zip(_step(compiled, mine, x), _step(wide, wide, x.double()), strict=True):
            torch.testing.assert_close(got, exact.to(got.dtype), rtol=1e-4, atol=1e-4)
    assert len(returned) == 1 and is_direct(returned[0])


@pytest.mark.parametrize("lay_out", [lambda t: t.t().contiguous().t(), lambda t: t[:1].expand_as(t), lambda t: t.flip(0)[::1]])
def test_strides_of_gradients_of_symbolic_sizes(lay_out: Callable[[Tensor], Tensor]) -> None:
    """Backward also takes sizes, and gets the gradient in the strides that it was compiled for: here those of a transposed
    result."""
    compiled, returned = spied(lambda v, w: (v.exp() * v.shape[0]).t() + w.sum(), dynamic=True)
    for n, m in ((5, 4), (3, 7), (6, 2), (8, 8)):
        x, w = torch.randn(n, m, requires_grad=True), torch.randn(m, requires_grad=True)
        given = lay_out(torch.randn(m, n))
        compiled(x, w).backward(given)
        torch.testing.assert_close(x.grad, x.detach().exp() * given.t() * n)
        torch.testing.assert_close(w.grad, given.sum().expand(m))
    assert len(returned) == 1 and is_direct(returned[0])


def test_results_of_symbolic_sizes_keep_them_after_a_graph_break() -> None:
    def broken(x: Tensor) -> Tensor:
        y = x.exp()
        torch._dynamo.graph_break()
        return y.sin()

    compiled, returned = spied(broken, dynamic=None)
    for n in (5, 3, 4, 9, 7):
        x = torch.randn(n, 4)
        torch._dynamo.mark_dynamic(x, 0)
        compiled(x.requires_grad_()).sum().backward()
        torch.testing.assert_close(x.grad, x.detach().exp() * x.detach().exp().cos())
    assert len(returned) == 2 and all(map(is_direct, returned))


def _step(call: Callable[..., Any], module: nn.Module, x: Tensor) -> list[Any]:
    x = x.clone().requires_grad_()
    results = call(x)
    results = results if isinstance(results, tuple) else (results,)
    loss = sum((r.square().sum() for r in results if r.is_floating_point()), torch.zeros(()))
    gradients = torch.autograd.grad(loss, [x, *module.parameters()])
    return [*results, *gradients, *[b.clone() for b in module.buffers()]]


def trained(model: Callable[..., Any], *args: Tensor) -> tuple[Callable[..., Any], Any]:
    """Compiles a function, runs it forward and backward once, and returns it with what the backend returned."""
    compiled, returned = spied(model)
    for value in (r for r in [compiled(*args)] if isinstance(r, Tensor)):
        value.sum().backward()
    compiled(*args)
    for a in args:
        a.grad = None
    assert is_direct(returned[0])
    return compiled, returned[0]


def test_two_forwards_before_a_backward() -> None:
    x, y = (torch.randn(5, requires_grad=True) for _ in range(2))
    compiled, _ = trained(lambda v: v.exp().sin(), x)
    first, second = compiled(x), compiled(y)
    second.sum().backward()
    first.sum().backward()
    for v in (x, y):
        torch.testing.assert_close(v.grad, v.detach().exp().cos() * v.detach().exp())


def test_backward_twice() -> None:
    """With retain_graph it accumulates; without it the second backward raises as in eager."""
    x = torch.randn(5, requires_grad=True)
    compiled, _ = trained(lambda v: v.exp().sin(), x)
    loss = compiled(x).sum()
    loss.backward(retain_graph=True)
    once = x.grad.clone()  # type: ignore[union-attr]
    loss.backward()
    torch.testing.assert_close(x.grad, 2 * once)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


def test_a_result_changed_in_place() -> None:
    """Changing a result that backward needs is detected."""
    x = torch.randn(5, requires_grad=True)
    compiled, _ = trained(lambda v: v.exp(), x)
    y = compiled(x)
    y.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_gradients_of_gradients_raise() -> None:
    x = torch.randn(5, requires_grad=True)
    compiled, _ = trained(lambda v: v.exp(), x)
    (gradient,) = torch.autograd.grad(compiled(x).sum(), x, create_graph=True)
    torch.testing.assert_close(gradient, x.exp())
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.sum().backward()


def test_batched_gradients_raise() -> None:
    x = torch.randn(5, requires_grad=True)
    compiled, _ = trained(lambda v: v.exp(), x)
    with pytest.raises(RuntimeError, match="inside vmap"):
        torch.autograd.grad(compiled(x), x, torch.eye(5), is_grads_batched=True)


def test_a_gradient_of_another_class_raises() -> None:
    x = torch.randn(5, requires_grad=True)
    compiled, _ = trained(lambda v: v.exp(), x)
    with pytest.raises(RuntimeError, match="TwoTensor as the gradient"):
        compiled(x).backward(TwoTensor(torch.ones(5), torch.ones(5)))


@pytest.mark.parametrize("lay_out", [lambda t: t.t().contiguous().t(), lambda t: t[:1].expand_as(t), lambda t: t.flip(0)[::1]])
def test_strides_of_gradients(lay_out: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(6, 4, requires_grad=True)
    compiled, _ = trained(lambda v: v.exp(), x)
    given = lay_out(torch.randn(6, 4))
    compiled(x).backward(given)
    torch.testing.assert_close(x.grad, x.detach().exp() * given)


def test_a_result_that_the_loss_ignores() -> None:
    x = torch.randn(6, 4, requires_grad=True)
    compiled, returned = spied(lambda v: (v.exp(), v.sin()))
    for _ in range(CALLS):
        x.grad = None
        compiled(x)[1].sum().backward()
        torch.testing.assert_close(x.grad, x.detach().cos())
    assert is_direct(returned[0])


def test_hooks_on_saved_tensors() -> None:
    """Hooks set around a call see the saved tensors, which torch.autograd.graph.save_on_cpu and checkpointing rely on."""
    x = torch.randn(6, 4, requires_grad=True)
    compiled, _ = trained(lambda v: v.exp(), x)
    seen: list[Tensor] = []

    def pack(t: Tensor) -> Tensor:
        seen.append(t)
        return t * 2

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t / 2):
        y = compiled(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, x.detach().exp())
    assert seen


def test_checkpointing_around_a_call() -> None:
    x = torch.randn(6, 4, requires_grad=True)
    compiled, _ = trained(lambda v: v.exp().sin(), x)
    torch.utils.checkpoint.checkpoint(compiled, x, use_reentrant=False).sum().backward()  # type: ignore[union-attr]
    torch.testing.assert_close(x.grad, x.detach().exp().cos() * x.detach().exp())


def test_autocast() -> None:
    """A model compiled under autocast does not cast again in calls of torch's ops."""
    eager, mine = twins(lambda: nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.Linear(64, 8)))
    compiled, returned = spied(mine)
    x = torch.randn(16, 64)
    for _ in range(CALLS):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            got, want = compiled(x), eager(x)
        assert got.dtype == want.dtype == torch.bfloat16
        torch.testing.assert_close(got, want, rtol=3e-2, atol=3e-2)
        for model, result in ((mine, got), (eager, want)):
            model.zero_grad()
            result.float().square().sum().backward()
        for p, q in zip(mine.parameters(), eager.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad, rtol=5e-2, atol=5e-1)
    assert is_direct(returned[0])


WRAPPED: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "a view of an argument": lambda x, y: (x.exp() + y, x[0]),
    "a view of a result": lambda x, y: (z := x.exp() + y, z[0]),
    "an argument that needs gradients is changed": lambda x, y: (z := x * 1, z.mul_(2), y * z)[2],
    "an argument without a gradient": lambda x, y: x.exp() + y.detach(),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_what_needs_wrappers_is_right_too(name: str) -> None:
    model = WRAPPED[name]
    compiled, _ = spied(model)
    for _ in range(CALLS):
        given = [torch.randn(4, 3) for _ in range(2)]
        pairs = []
        for call in (model, compiled):
            x, y = (t.clone().requires_grad_() for t in given)
            results = call(x, y)
            results = results if isinstance(results, tuple) else (results,)
            sum(r.square().sum() for r in results).backward()
            pairs.append([*results, x.grad, y.grad])
        same(*pairs)


def test_deterministic_algorithms_asked_for_later() -> None:
    """A compiled backward pass serves calls with the setting that forward was compiled with; for another setting Dynamo compiles
    again."""
    x = torch.randn(6, requires_grad=True)
    compiled, _ = trained(lambda v: v.exp(), x)
    torch.use_deterministic_algorithms(True)
    try:
        compiled(x).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(x.grad, x.detach().exp())


def test_compiled_autograd() -> None:
    x = torch.randn(6, requires_grad=True)
    compiled, _ = trained(lambda v: v.exp(), x)
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
        compiled(x).sum().backward()
    torch.testing.assert_close(x.grad, x.detach().exp())
