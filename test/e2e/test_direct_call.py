"""Tests that graphs that need none of AOTAutograd's wrappers are called without them, that others keep them, and that both agree
with eager."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from entry_points import same
from spying import spied
from torch import Tensor
from torch.testing._internal.two_tensor import TwoTensor

from lamina.frontend.calls.call import _Adapter
from lamina.frontend.compiling.per_size import PerSize
from lamina.frontend.compiling.sized import SizedProgram
from lamina.frontend.compiling.split import Parts
from lamina.runtime.executable import Executable


def is_direct(run: Any) -> bool:
    return isinstance(run, Executable | _Adapter | Parts)


def unmarked(run: Any) -> Any:
    """Returns the function inside a wrapper that marks sizes of results as dynamic."""
    closure = getattr(run, "__closure__", None) or ()
    return next((cell.cell_contents for cell in closure if isinstance(cell.cell_contents, SizedProgram)), run)


def agrees(model: Callable[..., Any], *args: Any) -> Any:
    """Calls eager and the compiled model twice with equal arguments. Returns what the backend returned for the only graph."""
    compiled, returned = spied(model, dynamic=False)
    for _ in range(2):
        mine, theirs = [a.clone() for a in args], [a.clone() for a in args]
        want, got = model(*theirs), compiled(*mine)
        same(got, want)
        same(mine, theirs)
    assert len(returned) == 1
    return returned[0]


def _module(x: Tensor) -> Tensor:
    return _LINEAR(x).relu()


_LINEAR = torch.nn.Linear(8, 3)

PLAIN = {
    "one op": lambda x, y: x.relu(),
    "two results": lambda x, y: (x + y, x * y),
    "one result twice": lambda x, y: (z := x + y, z),
    "returns an argument, which Dynamo does itself": lambda x, y: (x, x + y),
    "views of one result": lambda x, y: ((z := x + y).view(-1), z.t()),
    "one argument": lambda x, y: y.exp(),
    "constants": lambda x, y: (x + torch.tensor([1.0] * 8), 3),
    "parameters": lambda x, y: _module(x) + y.sum(),
    "empty result": lambda x, y: (x[:0] + 1, y.sin()),
    "an op that runs eagerly": lambda x, y: torch.fft.fft(x + y).abs(),
    "attention, an op of Lamina": lambda x, y: torch.nn.functional.scaled_dot_product_attention(
        *(t.view(1, 1, *t.shape) for t in (x, y, x))
    ),
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_graphs_are_called_directly(name: str) -> None:
    with torch.no_grad():
        assert is_direct(agrees(PLAIN[name], torch.randn(5, 8), torch.randn(5, 8)))


WRAPPED = {
    "writes to an argument": lambda x, y: x.add_(y),
    "writes to an argument, returns another": lambda x, y: (x.mul_(2), y + 1)[1],
    "changes an argument's shape and elements": lambda x, y: x.t_().mul_(2).sin(),
    "views an argument": lambda x, y: (x.view(-1), x + y),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_graphs_with_views_and_writes_keep_the_wrappers(name: str) -> None:
    with torch.no_grad():
        run = agrees(WRAPPED[name], torch.randn(5, 8), torch.randn(5, 8))
    assert not is_direct(run)


@pytest.mark.parametrize("gradients", [False, True])
def test_results_that_view_what_another_result_does_are_views(gradients: bool) -> None:
    compiled, _ = spied(lambda x: (z := x + 1, z.view(-1)), dynamic=False)
    with torch.set_grad_enabled(gradients):
        whole, view = compiled(torch.zeros(2, 3))
    whole.fill_(7)
    assert view.eq(7).all()


@pytest.mark.parametrize("needs", [False, True])
def test_no_graph_without_gradients_returns_results_that_require_them(needs: bool) -> None:
    x = torch.randn(4, 8, requires_grad=needs)
    compiled, returned = spied(lambda x: torch.addmm(x.detach(), x.detach(), torch.eye(8)).sin(), dynamic=False)
    out = compiled(x)
    assert torch.is_grad_enabled() and not out.requires_grad and out.grad_fn is None
    assert is_direct(returned[0])
    torch.testing.assert_close(out, (2 * x).sin().detach())


def test_graphs_with_gradients_keep_the_wrappers() -> None:
    x = torch.randn(4, 8, requires_grad=True)
    compiled, returned = spied(lambda x: x.sin(), dynamic=False)
    compiled(x).sum().backward()
    torch.testing.assert_close(x.grad, x.detach().cos())
    assert not is_direct(returned[0])


def test_a_graph_that_changes_the_grad_mode_keeps_the_wrappers() -> None:
    def model(x: Tensor) -> Tensor:
        y = x + 1
        torch._C._set_grad_enabled(False)
        return y

    compiled, _ = spied(model, dynamic=False)
    try:
        torch.testing.assert_close(compiled(torch.ones(3)), torch.full((3,), 2.0))
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


def test_autocast_keeps_the_wrappers() -> None:
    x, w = torch.randn(4, 8), torch.randn(8, 3)
    compiled, returned = spied(lambda x: (x @ w).sin(), dynamic=False)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        want, got = (x @ w).sin(), compiled(x)
    assert got.dtype is want.dtype is torch.bfloat16
    torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)
    assert not is_direct(returned[0])


def test_a_graph_compiled_without_autocast_is_compiled_again_with_it() -> None:
    x, w = torch.randn(4, 8), torch.randn(8, 3)
    compiled, returned = spied(lambda x: x @ w, dynamic=False)
    with torch.no_grad():
        assert compiled(x).dtype is torch.float32
        with torch.autocast("cpu", torch.bfloat16):
            assert compiled(x).dtype is torch.bfloat16
    assert [is_direct(run) for run in returned] == [True, False]


def test_subclasses_keep_the_wrappers() -> None:
    x = TwoTensor(torch.randn(4), torch.randn(4))
    compiled, returned = spied(lambda x: x.sin(), dynamic=False)
    with torch.no_grad():
        out = compiled(x)
    assert isinstance(out, TwoTensor)
    torch.testing.assert_close(out.b, x.b.sin())
    assert not is_direct(returned[0])


def test_custom_ops_keep_the_wrappers() -> None:
    op = torch.library.custom_op("lamina_test_direct::twice", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_fake(torch.empty_like)
    with torch.no_grad():
        assert not is_direct(agrees(lambda x: op(x) + 1, torch.randn(5)))


def test_one_tensor_given_twice() -> None:
    compiled, _ = spied(lambda x, y: x + y, dynamic=False)
    x = torch.randn(5)
    with torch.no_grad():
        for args in ((x, x), (x, x.clone()), (x, x)):
            torch.testing.assert_close(compiled(*args), args[0] + args[1])


def test_arguments_that_share_memory_and_are_written() -> None:
    compiled, _ = spied(lambda x, y: x.add_(1) + y, dynamic=False)
    with torch.no_grad():
        for _ in range(2):
            whole, own = torch.arange(6.0), torch.arange(6.0)
            torch.testing.assert_close(compiled(whole[:4], whole[2:]), own[:4].add_(1) + own[2:])
            torch.testing.assert_close(whole, own)


def test_each_size_is_called_directly() -> None:
    compiled, returned = spied(lambda x: x.sin(), dynamic=True)
    with torch.no_grad():
        for n in (3, 5, 1, 0):
            torch.testing.assert_close(compiled(torch.ones(n, 2)), torch.ones(n, 2).sin())
    assert any(isinstance(run, SizedProgram) for run in map(unmarked, returned))
    assert all(isinstance(run, SizedProgram) or is_direct(run) for run in map(unmarked, returned))


def test_results_tell_the_next_graph_which_sizes_change() -> None:
    def model(x: Tensor) -> Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    compiled, returned = spied(model, dynamic=None)
    with torch.no_grad():
        for n in (3, 5, 7):
            x = torch.randn(n, 2)
            torch.testing.assert_close(compiled(x), x.sin().cos())
    assert len(returned) == 4  # each of the two graphs: for the first size, then for all


def test_a_write_per_size_is_not_wrapped_by_a_function_that_disables_dynamo() -> None:
    """Dynamo disables itself around everything that a backend returns."""
    compiled, returned = spied(lambda x, y: x.add_(y), dynamic=False)
    with torch.no_grad():
        compiled(torch.ones(3), torch.ones(3))
    (run,) = returned
    assert isinstance(run, PerSize)
    assert not any(hasattr(variant, "_torchdynamo_disable") for variant in run.variants.values())
