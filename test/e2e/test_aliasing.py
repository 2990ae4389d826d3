"""Tests that aliasing is as in eager: which results share memory, what is changed in place, what is new memory."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from entry_points import ENTRY_POINTS, NO_CACHE, Model, as_eager, memory, same
from torch import Tensor, nn

from lamina import compile as lamina_compile

EntryPoint = Callable[..., Model]


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=ENTRY_POINTS.values(), ids=ENTRY_POINTS.keys())
def entry_point(request: pytest.FixtureRequest) -> Iterator[EntryPoint]:
    with torch.no_grad():
        yield request.param


def x(*shape: int) -> Tensor:
    return torch.randn(*shape)


def test_an_output_that_is_the_changed_input(entry_point: EntryPoint) -> None:
    (a,), got = as_eager(entry_point, lambda a: a.add_(1), x(3))
    assert memory(got) == memory(a)
    got.zero_()
    assert not a.any()


def test_outputs_that_share_memory(entry_point: EntryPoint) -> None:
    def fn(a: Tensor) -> Any:
        b = a + 1
        return b, b.t(), b[0], b

    _, (b, t, row, again) = as_eager(entry_point, fn, x(3, 4))
    assert memory(b) == memory(t) == memory(row) == memory(again)
    b.zero_()
    assert not t.any() and not row.any()


@pytest.mark.parametrize("through", ENTRY_POINTS.values(), ids=ENTRY_POINTS)
def test_a_result_that_autograd_saved_and_the_caller_changed(through: EntryPoint) -> None:
    """Its gradient would be wrong, so backward raises, as in eager. (AOTAutograd does not check this for views.)"""
    a = x(3, 4).requires_grad_()
    result = through(torch.exp, (a,))(a)
    with torch.no_grad():
        result.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_autograd_follows_what_is_written_from_one_result_to_another(name: str) -> None:
    def fn(a: Tensor) -> tuple[Tensor, ...]:
        b = a + 1
        return b[:, 1:2].expand(3, 4), b, b[1:], b.t()

    a, w = x(3, 4), x(3, 4).requires_grad_()

    def gradient(run: Model) -> Tensor:
        results = run(a)
        assert len({memory(r) for r in results}) == 1
        results[1].mul_(w)
        return torch.autograd.grad(sum((r * r).sum() for r in results), w)[0]

    same(gradient(ENTRY_POINTS[name](fn, (a,))), gradient(fn))


@pytest.mark.parametrize(
    "fn", [lambda a: a[1:3], lambda a: a.view(2, 2), lambda a: a.view(2, 2).t()], ids=["part", "view", "turned"]
)
def test_views_of_arguments_that_share_memory_and_change(entry_point: EntryPoint, fn: Callable[[Tensor], Tensor]) -> None:
    def changed(a: Tensor, b: Tensor) -> Any:
        b.mul_(2)
        return fn(b), a + 1

    def arguments(start: int = 2) -> tuple[Tensor, Tensor]:
        base = torch.arange(8.0)
        return base[:4], base[start : start + 4]

    compiled = entry_point(changed, arguments())
    for start in (2, 3, 2):
        mine, theirs = arguments(start), arguments(start)
        got, want = compiled(*mine), changed(*theirs)
        same(got, want)
        assert memory(got[0]) == memory(mine[0]) and got[0].storage_offset() == want[0].storage_offset()
        same(mine, theirs)


def test_results_of_two_calls_do_not_share_memory(entry_point: EntryPoint) -> None:
    compiled = entry_point(lambda a: a + 1, (x(1000),))
    a = x(1000)
    first = compiled(a)
    kept = first.clone()
    second = compiled(a * 2)
    assert memory(first) != memory(second)
    same(first, kept)


def test_a_buffer_as_output() -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("state", torch.zeros(4))

        def forward(self, a: Tensor) -> Tensor:
            self.state.copy_(a * 2)
            return self.state

    model = Holder()
    with torch.no_grad():
        compiled = lamina_compile(model, (x(4),), options=NO_CACHE)
        a = x(4)
        got = compiled(a)
    same(got, a * 2)
    assert memory(got) == memory(model.state)


def test_arguments_that_share_memory_and_change() -> None:
    def fn(a: Tensor, b: Tensor) -> Tensor:
        a.add_(1)
        return a * b

    with torch.no_grad():
        compiled = lamina_compile(fn, (x(4), x(4)), options=NO_CACHE)
        mine = x(4)
        theirs = mine.clone()
        same(compiled(mine, mine), fn(theirs, theirs))
        same(mine, theirs)
        as_eager(ENTRY_POINTS["torch.compile"], lambda a: fn(a, a), x(4))


def test_arguments_that_share_memory_when_compiled_alone() -> None:
    """Gradients of separate arguments used to be computed as if they shared memory as in the first call."""

    def fn(a: Tensor, b: Tensor) -> Tensor:
        return (a.view(3, 4) @ b).relu()

    def pair(shared: bool) -> tuple[Tensor, Tensor]:
        memory = x(40)
        a, b = memory[:12], memory[12:32].view(4, 5)
        return (
            (a.detach().requires_grad_(), b.detach().requires_grad_())
            if shared
            else (x(12).requires_grad_(), x(4, 5).requires_grad_())
        )

    for entry_point in ENTRY_POINTS.values():
        compiled = entry_point(fn, pair(True))
        for shared in (True, False, False, True):
            args = pair(shared)
            found = torch.autograd.grad(compiled(*args).sin().sum(), args)
            same(list(found), list(torch.autograd.grad(fn(*args).sin().sum(), args)))


def test_gradients_of_what_was_computed_of_an_argument_before_it_changed() -> None:
    weight = x(4).requires_grad_()

    def fn(a: Tensor, w: Tensor) -> Tensor:
        b = (a + 1).sin()
        a.zero_()
        return b * w

    for entry_point in ENTRY_POINTS.values():
        compiled = entry_point(fn, (x(4), weight))
        for _ in range(2):
            mine = x(4)
            theirs = mine.clone()
            (found,) = torch.autograd.grad(compiled(mine, weight).sum(), weight)
            (expected,) = torch.autograd.grad(fn(theirs, weight).sum(), weight)
            same([found, mine], [expected, theirs])


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "itself": lambda a: a,
    "contiguous": lambda a: a.contiguous(),
    "in place": lambda a: a.mul_(1),
    "dropout in evaluation": lambda a: nn.functional.dropout(a, 0.5, False),
    "expand": lambda a: a.expand(a.shape),
    "reshape": lambda a: a.reshape(a.shape),
    "view": lambda a: a.view(a.shape),
    "detach": lambda a: a.detach(),
    "slice": lambda a: a[:],
    "part": lambda a: a[1:],
    "part of detached": lambda a: a.detach()[1:],
    "two views": lambda a: a.flatten()[:].view(a.shape),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_other_tensors(entry_point: EntryPoint, name: str) -> None:
    """Only some ops return their input for a view of all of it, and the gradient state must be eager's."""
    function = VIEWS[name]
    for needs_grad in (False, True)[: 1 if name == "in place" else 2]:
        a = x(3, 4).requires_grad_(needs_grad)
        got, want = entry_point(function, (a,))(a), function(a)
        assert memory(got) == memory(want)
        assert (got is a, got.requires_grad) == (want is a, want.requires_grad), needs_grad
