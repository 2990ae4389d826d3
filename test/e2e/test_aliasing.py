"""Memory as in eager: what shares it, what is changed in place, what is fresh."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from doors import DOORS, NO_CACHE, Model, as_eager, memory, same
from torch import Tensor, nn

from lamina import compile as lamina_compile

Door = Callable[..., Model]


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=DOORS.values(), ids=DOORS.keys())
def door(request: pytest.FixtureRequest) -> Iterator[Door]:
    with torch.no_grad():
        yield request.param


def x(*shape: int) -> Tensor:
    return torch.randn(*shape)


def test_an_output_that_is_the_changed_input(door: Door) -> None:
    (a,), got = as_eager(door, lambda a: a.add_(1), x(3))
    assert memory(got) == memory(a)
    got.zero_()
    assert not a.any()


def test_outputs_that_share_memory(door: Door) -> None:
    def fn(a: Tensor) -> Any:
        b = a + 1
        return b, b.t(), b[0], b

    _, (b, t, row, again) = as_eager(door, fn, x(3, 4))
    assert memory(b) == memory(t) == memory(row) == memory(again)
    b.zero_()
    assert not t.any() and not row.any()


def test_results_of_two_calls_do_not_share_memory(door: Door) -> None:
    compiled = door(lambda a: a + 1, (x(1000),))
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
        as_eager(DOORS["torch.compile"], lambda a: fn(a, a), x(4))
