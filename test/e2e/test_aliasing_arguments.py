"""Tests arguments that share memory in some calls and not in others, for models that write to them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from entry_points import BACKEND, NO_CACHE, same
from pairs import pairwise
from torch import Tensor

import lamina


def both(a: Tensor, b: Tensor) -> Any:
    a.mul_(2)
    b.add_(1)
    return a + b, a


def one(a: Tensor, b: Tensor) -> Any:
    c = a.sin()
    b.add_(c)
    return (c * a,)


def returned(a: Tensor, b: Tensor) -> Any:
    a.mul_(2)
    return b.view(1, -1), b[1:].t()


def none(a: Tensor, b: Tensor) -> Any:
    return (a - 3 * b,)


def pairs(n: int) -> Iterator[tuple[str, Callable[[], tuple[Tensor, Tensor]]]]:
    yield "apart", lambda: (torch.randn(n), torch.randn(n))
    yield "one tensor", lambda: (torch.randn(n),) * 2
    yield "a view of the other", lambda: (t := torch.randn(n), t[:])
    yield "overlapping views", lambda: ((u := torch.randn(2 * n))[:n], u[n // 2 : n // 2 + n])
    yield "views that do not overlap", lambda: ((u := torch.randn(2 * n))[:n], u[n:])
    yield "overlapping views of more memory", lambda: ((u := torch.randn(3 * n))[:n], u[n // 2 : n // 2 + n])
    yield "overlapping tensors", lambda: ((u := torch.randn(2 * n))[1 : n + 1].detach(), u[:n].detach())
    yield "apart again", lambda: (torch.randn(n), torch.randn(n))


def ahead(model: Callable[..., Any], args: Any) -> Any:
    return lamina.compile(model, args, options=NO_CACHE)


def jit(dynamic: bool | None) -> Callable[..., Any]:
    return lambda model, args: torch.compile(model, backend=BACKEND, options=NO_CACHE, dynamic=dynamic)


ENTRY_POINTS = {"aot": ahead, "jit": jit(False), "jit dynamic": jit(True)}


@pytest.mark.parametrize(
    ("model", "entry_point_name", "backwards"), pairwise([both, one, returned, none], [*ENTRY_POINTS], [False, True])
)
@pytest.mark.filterwarnings("ignore:lamina compiles this graph once per size")
def test_values_and_mutation(model: Callable[..., Any], entry_point_name: str, backwards: bool) -> None:
    torch._dynamo.reset()
    entry_point = ENTRY_POINTS[entry_point_name]
    compiled: Any = None
    for n in (5,) if entry_point is ahead else (5, 6):
        for name, draw in list(pairs(n))[:: -1 if backwards else 1]:
            state = torch.get_rng_state()
            theirs = draw()
            torch.set_rng_state(state)
            mine = draw()
            compiled = compiled or entry_point(model, draw())
            want, got = model(*theirs), compiled(*mine)
            same((got, mine), (want, theirs))
            assert [r.data_ptr() == mine[0].data_ptr() for r in got] == [r.data_ptr() == theirs[0].data_ptr() for r in want], name


@pytest.mark.parametrize("entry_point", ENTRY_POINTS.values(), ids=ENTRY_POINTS)
@pytest.mark.filterwarnings("ignore:lamina compiles this graph once per size")
def test_gradients(entry_point: Callable[..., Any]) -> None:
    torch._dynamo.reset()
    compiled: Any = None
    for n in (5, 5) if entry_point is ahead else (5, 6):
        for views in (lambda t: (t * 2, t * 3), lambda t: (t * 2,) * 2, lambda t: ((t * 2)[:], t.cos())):
            start = torch.randn(n)
            mine, theirs = (start.clone().requires_grad_() for _ in range(2))
            compiled = compiled or entry_point(both, views(theirs.detach().clone().requires_grad_()))
            got, want = compiled(*views(mine)), both(*views(theirs))
            same(got, want)
            for results in (got, want):
                sum((r.sin() * r).sum() for r in results).backward()
            same(mine.grad, theirs.grad)


@pytest.mark.filterwarnings("error:lamina compiles this graph once per size")
def test_arguments_that_share_memory_and_are_only_read_have_one_program_for_all_sizes() -> None:
    def halves(x: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        torch._dynamo.graph_break()
        return a.sigmoid() * b

    torch._dynamo.reset()
    compiled = torch.compile(halves, backend=BACKEND, options=NO_CACHE, dynamic=True)
    for size in ((4, 6), (5, 8), (7, 10)):
        x = torch.randn(size)
        same(compiled(x), halves(x))
