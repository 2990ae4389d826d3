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


def test_an_input_changed_in_place(door: Door) -> None:
    def fn(a: Tensor, b: Tensor) -> Tensor:
        a.mul_(2).add_(b)
        return a * 3

    as_eager(door, fn, x(3, 4), x(4))


def test_a_view_of_an_input_changed_in_place(door: Door) -> None:
    def fn(a: Tensor) -> Tensor:
        a[1].zero_()
        a.t()[0] = 7.0
        return a.sum(0)

    as_eager(door, fn, x(3, 4))


def test_a_changed_input_that_is_not_contiguous(door: Door) -> None:
    def fn(a: Tensor) -> Tensor:
        a.add_(1)
        return a * 2

    as_eager(door, fn, x(4, 6).t())
    as_eager(door, fn, x(4, 6)[:, 1::2])


def test_an_output_that_is_the_input(door: Door) -> None:
    (a,), got = as_eager(door, lambda a: a, x(3))
    assert memory(got) == memory(a)


def test_an_output_that_is_the_changed_input(door: Door) -> None:
    (a,), got = as_eager(door, lambda a: a.add_(1), x(3))
    assert memory(got) == memory(a)
    got.zero_()
    assert not a.any()


@pytest.mark.parametrize(
    "view", [lambda a: a.t(), lambda a: a[1:], lambda a: a.view(-1)[::2], lambda a: a.unsqueeze(0).expand(5, 3, 4)]
)
def test_an_output_that_is_a_view_of_an_input(door: Door, view: Callable[[Tensor], Tensor]) -> None:
    (a, _), (got, _) = as_eager(door, lambda a, b: (view(a), a + b), x(3, 4), x(4))
    assert memory(got) == memory(a)


def test_outputs_that_share_memory(door: Door) -> None:
    def fn(a: Tensor) -> Any:
        b = a + 1
        return b, b.t(), b[0], b

    _, (b, t, row, again) = as_eager(door, fn, x(3, 4))
    assert memory(b) == memory(t) == memory(row) == memory(again)
    b.zero_()
    assert not t.any() and not row.any()


def test_outputs_equal_in_value_do_not_share_memory(door: Door) -> None:
    (a,), outputs = as_eager(door, lambda a: (a * 1, a + 0, a * 1, a.clone(), a.contiguous() + 0), x(3, 4))
    places = [memory(t) for t in (a, *outputs)]
    assert len(set(places)) == len(places)


def test_results_of_two_calls_do_not_share_memory(door: Door) -> None:
    compiled = door(lambda a: a + 1, (x(1000),))
    a = x(1000)
    first = compiled(a)
    kept = first.clone()
    second = compiled(a * 2)
    assert memory(first) != memory(second)
    same(first, kept)


def test_buffers_change(door: Door) -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros((), dtype=torch.int64))
            self.register_buffer("total", torch.zeros(4))

        def forward(self, a: Tensor) -> Any:
            self.count += 1
            self.total.add_(a.sum(0))
            return self.total * 2, self.count

    as_eager(door, Counter(), x(3, 4), calls=3)


def test_batch_norm_in_training_keeps_its_statistics(door: Door) -> None:
    as_eager(door, nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, momentum=0.3)).train(), x(4, 3, 7, 7), calls=3)


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


def test_everything_at_once(door: Door) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, a: Tensor, b: Tensor) -> Any:
            self.calls.add_(1)
            a.add_(1)
            z = self.norm(a.clone())
            w = z * 2
            return {"z": z, "rest": (a, w.t(), w, a.view(-1)), "n": 3, "none": None, "b": b + 1}

    (a, _), got = as_eager(door, Model().train(), x(5, 4), x(3))
    assert memory(got["rest"][0]) == memory(got["rest"][3]) == memory(a)
    assert memory(got["rest"][1]) == memory(got["rest"][2])


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
