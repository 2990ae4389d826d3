"""Tests torch.cond, which keeps a data-dependent branch in one graph, through both entry points and with gradients."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from entry_points import BACKEND, ENTRY_POINTS, NO_CACHE, Model, same
from torch import Tensor

import lamina
from lamina import CompileError

EntryPoint = Callable[..., Model]


def grow_or_turn(a: Tensor) -> Tensor:
    return torch.cond(a.sum() > 0, lambda b: b * 2 + 1, lambda b: b.sin() - b.max(), (a,)) * 3


def nested(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    def inner(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        one = torch.cond(b.sum() > 0, lambda a, b: a + b, lambda a, b: a - b, (a, b))
        return one, one.t().contiguous().sum(0)

    def flat(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return a.exp(), b.sum(1)

    return torch.cond(a.sum() > 0, inner, flat, (a, b))


def looks_up(table: Tensor, where: Tensor) -> Tensor:
    def inside(table: Tensor, where: Tensor) -> Tensor:
        return table[where] * 2

    def outside(table: Tensor, where: Tensor) -> Tensor:
        return table[:4] * 0

    return torch.cond(where.max() < table.shape[0], inside, outside, (table, where))


@pytest.mark.parametrize("entry_point", ENTRY_POINTS.values(), ids=ENTRY_POINTS.keys())
def test_a_branch(entry_point: EntryPoint) -> None:
    torch._dynamo.reset()
    a, b = torch.rand(5, 5) + 0.1, torch.randn(5, 5)
    with torch.no_grad():
        compiled = entry_point(grow_or_turn, (a,))
        for c in (a, -a):
            same(compiled(c), grow_or_turn(c))
        compiled = entry_point(nested, (a, b))
        for c, d in itertools.product((a, -a), (b, -b)):
            same(compiled(c, d), nested(c, d))


def test_gradients_of_the_branch_that_was_taken() -> None:
    torch._dynamo.reset()
    ahead = lamina.compile(grow_or_turn, (torch.randn(7),), options=NO_CACHE)
    for compiled in (ahead, torch.compile(grow_or_turn, backend=BACKEND, options=NO_CACHE)):
        for sign in (1, -1):
            a = (torch.rand(7) * sign).requires_grad_()
            (found,) = torch.autograd.grad(compiled(a).sum(), a)
            (expected,) = torch.autograd.grad(grow_or_turn(a).sum(), a)
            torch.testing.assert_close(found, expected)


def test_the_other_branch_looks_nothing_up() -> None:
    table = torch.randn(6, 3)
    with torch.no_grad():
        compiled = lamina.compile(looks_up, (table, torch.tensor([0, 1, 2, 3])), options=NO_CACHE)
        for where in ([0, 5, 2, 3], [0, 6, 2, 3], [0, 1 << 40, 2, 3]):
            same(compiled(table, torch.tensor(where)), looks_up(table, torch.tensor(where)))


@pytest.mark.parametrize("entry_point", ENTRY_POINTS.values(), ids=ENTRY_POINTS.keys())
def test_branches_with_effects_run_where_they_are_taken(entry_point: EntryPoint) -> None:
    def drops(a: Tensor) -> Any:
        def drop(b: Tensor) -> Tensor:
            return torch.dropout(b, 0.5, True) * 1.5

        return torch.cond(a.sum() > 0, drop, lambda b: b + 1, (a.sin(),)) + 1

    with torch.no_grad():
        torch._dynamo.reset()
        a = torch.rand(4000)
        compiled = entry_point(drops, (a,))
        state = torch.get_rng_state()
        torch.testing.assert_close(compiled(-a), drops(-a))
        assert torch.equal(torch.get_rng_state(), state)
        taken = compiled(a) - 1
        assert 1500 < (taken == 0).sum() < 2500
        torch.testing.assert_close(taken[taken != 0], (3 * a.sin())[taken != 0])


def test_branches_with_effects_are_refused_in_strict_mode() -> None:
    def drops(a: Tensor) -> Any:
        return torch.cond(a.sum() > 0, lambda b: torch.dropout(b, 0.5, True), lambda b: b + 1, (a,))

    with torch.no_grad(), pytest.raises(CompileError, match="may run only where it is taken"):
        lamina.compile(drops, (torch.randn(4),), options={"strict": True, "cache": False})


@pytest.mark.parametrize("entry_point", ["aot", "jit"])
def test_gradients_of_branches_in_different_layouts(entry_point: str) -> None:
    """The gradient of a product is row-major, that of a copied transpose is not; torch rejects such a pair."""

    def product_or_transpose(a: Tensor, b: Tensor) -> Tensor:
        return torch.cond(a.sum() > 0, lambda a, b: a @ b, lambda a, b: (a * b).t().contiguous(), (a, b)) * 3

    torch._dynamo.reset()
    inputs = torch.rand(5, 5), torch.rand(5, 5)
    ahead = lamina.compile(product_or_transpose, tuple(t.clone().requires_grad_() for t in inputs), options=NO_CACHE)
    compiled = ahead if entry_point == "aot" else torch.compile(product_or_transpose, backend=BACKEND, options=NO_CACHE)
    for sign in (1, -1):
        a, b = ((t * sign).requires_grad_() for t in inputs)
        weights = torch.randn(5, 5)
        found = torch.autograd.grad((compiled(a, b) * weights).sum(), (a, b))
        plain = a @ b if sign > 0 else (a * b).t()
        expected = torch.autograd.grad((plain * weights * 3).sum(), (a, b))
        torch.testing.assert_close(found, expected)


def test_a_model_is_captured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.cond's branch graphs are not modules whose state the model has to contain."""
    captures: list[Any] = []
    export = torch.export.export
    monkeypatch.setattr(torch.export, "export", lambda *args, **kwargs: (captures.append(args), export(*args, **kwargs))[1])
    compiled = lamina.compile(grow_or_turn, (torch.randn(3, 4),), options=NO_CACHE)
    a = torch.randn(3, 4)
    same(compiled(a), grow_or_turn(a))
    assert len(captures) == 1
