"""Tests that the cache holds programs of symbolic sizes: a process that starts with other sizes compiles nothing again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from entry_points import BACKEND, same
from torch import Tensor, nn

from lamina.frontend.compiling import stages

F = torch.nn.functional
LINEAR = nn.Linear(8, 5)


def attended(q: Tensor, k: Tensor) -> Tensor:
    return (q @ k.mT).softmax(-1) @ k


def halves(x: Tensor) -> tuple[Tensor, ...]:
    return x[:, : x.shape[1] // 2] * 2, x.flatten().cumsum(0), x.new_full((x.shape[0],), x.shape[1]), x.shape[1] * 3


MODELS: dict[str, tuple[Callable[..., Any], Callable[[int, int], tuple[Tensor, ...]]]] = {
    "linear": (lambda x: F.gelu(LINEAR(x)), lambda b, n: (torch.randn(b, n, 8, requires_grad=True),)),
    "attention": (attended, lambda b, n: (torch.randn(b, n, 6), torch.randn(b, n + 1, 6))),
    "sizes in results": (halves, lambda b, n: (torch.randn(b, n),)),
}


def _observed(model: Callable[..., Any], args: tuple[Tensor, ...]) -> Any:
    results = model(*args)
    if not args[0].requires_grad:
        return results
    return results, torch.autograd.grad(results.square().sum(), args[0])


@pytest.mark.parametrize("name", MODELS)
def test_other_sizes_find_the_program(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_CACHE_DIR", str(tmp_path))
    built: list[stages.Built] = []
    load = stages.load
    monkeypatch.setattr(stages, "load", lambda of, *args: (built.append(of), load(of, *args))[1])
    model, make = MODELS[name]
    for first, sizes in enumerate([((5, 7), (6, 9)), ((12, 33), (5, 7), (3, 4))]):
        torch._dynamo.reset()
        compiled = torch.compile(model, backend=BACKEND, dynamic=True)
        for b, n in sizes:
            args = make(b, n)
            same(_observed(compiled, args), _observed(model, args))
        assert {of.cached for of in built} == {bool(first)}
        built.clear()


def test_what_is_known_of_sizes_is_in_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program for rows of a multiple of 4 must not serve a graph without this guard."""
    monkeypatch.setenv("LAMINA_CACHE_DIR", str(tmp_path))

    def rows(x: Tensor) -> Tensor:
        return x.reshape(-1, 4).sum(1) if x.shape[0] % 4 == 0 else x * 2

    for n in (12, 9, 16, 11):
        torch._dynamo.reset()
        x = torch.randn(n)
        same(torch.compile(rows, backend=BACKEND, dynamic=True)(x), rows(x))
