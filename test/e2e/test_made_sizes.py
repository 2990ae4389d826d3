"""Tests sizes that depend on the values of tensors, which torch captures with capture_dynamic_output_shape_ops and
capture_scalar_outputs: the op that computes such a size runs in eager, and the rest is compiled once."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from entry_points import BACKEND, NO_CACHE, same
from sized_graphs import compilations, x
from torch import Tensor

import lamina
from lamina.core.program import Program

__all__ = ["compilations"]


def chosen(a: Tensor) -> Tensor:
    return (a[a.sum(1) > 0].exp() * 2).sum(0)


def selected(a: Tensor) -> Tensor:
    return (torch.masked_select(a, a > 0) * 2).sin()


def twice(a: Tensor) -> tuple[Tensor, int]:
    b = a[a.sum(1).nonzero().squeeze(1)].exp() * 2
    return b[(b.sum(1) > 3).nonzero().squeeze(1)].softmax(-1).sum(0), b.shape[0] * 2


def product(a: Tensor) -> Tensor:
    return (a[a.sum(1) > 0] @ a.mT).relu().mean(1)


def first(a: Tensor) -> Tensor:
    n = a[0, 0].abs().long().item()
    torch._check(n >= 0)
    torch._check(n <= a.shape[0])
    return a[:n].cos().sum(0) * 2


def ones(a: Tensor) -> Tensor:
    n, m = a[0, :2].abs().long().tolist()
    return a.new_ones(n, m) * 2 + 1


@pytest.mark.parametrize("function", [chosen, selected, twice, product, first, ones])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.skipif(torch.__version__ < "2.12", reason="torch 2.11 asks more of such sizes")
def test_what_follows_is_compiled_once(function: Callable[..., Any], dynamic: bool, compilations: list[Program]) -> None:
    config = torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True)
    with config, warnings.catch_warnings(action="error", category=UserWarning):
        warnings.filterwarnings("ignore", module="torch")
        compiled = torch.compile(function, backend=BACKEND, options=NO_CACHE, fullgraph=True, dynamic=dynamic)
        for values in (x(6, 4), x(6, 4), x(6, 4) - 3, x(6, 4).abs() + 0.5, x(6, 4)):
            same(compiled(values), function(values))
        parts = len(compilations)
        for n in (9, 17) if dynamic else ():
            values = x(n, 4)
            same(compiled(values), function(values))
    assert len(compilations) == parts <= 5


def test_explain_shows_the_parts() -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        found = lamina.explain(chosen, (x(6, 4),), show=False)
    assert [[call.callee for call in graph.externals] for graph in found.graphs] == [[], ["aten.index.Tensor"], []]
    assert [len(graph.kernels) for graph in found.graphs] == [1, 0, 1]
