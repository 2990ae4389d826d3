"""Tests windows along a dimension, which are overlapping views: kernels gather them, callers see eager's strides, and gradients
are sums."""

from collections.abc import Callable

import pytest
import torch
from oracle import check
from torch import Tensor

FUNCTIONS: dict[str, Callable[[Tensor], Tensor | tuple[Tensor, ...]]] = {
    "computed": lambda a: a.unfold(1, 5, 2).sin(),
    "apart": lambda a: a.unfold(0, 2, 3) * 1,
    "of windows": lambda a: (a * 2).unfold(0, 3, 2).unfold(1, 4, 3).sum((-1, -2)),
    "of a slice": lambda a: a.t()[1::2].unfold(-1, 3, 1).amax(-1),
    "a result": lambda a: a.cos().unfold(-1, 3, 2),
    "beside what they view": lambda a: (b := a.exp(), b.unfold(0, 2, 1)),
}


CASES = [(name, dtype) for name in FUNCTIONS for dtype in (torch.float32, torch.bfloat16, torch.float64)]
INTEGERS = [(name, torch.int64) for name in ("apart", "of windows", "of a slice")]


@pytest.mark.parametrize(("name", "dtype"), [*CASES, *INTEGERS])
def test_windows(name: str, dtype: torch.dtype) -> None:
    check(FUNCTIONS[name], (torch.randn(7, 15) * 4).to(dtype), ulps=8)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_strides_and_gradients(name: str, dynamic: bool) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(FUNCTIONS[name], backend="lamina", dynamic=dynamic)
    x = torch.randn(7, 15, requires_grad=True)
    got, want = (found if isinstance(found := fn(x), tuple) else (found,) for fn in (compiled, FUNCTIONS[name]))
    gradients = [torch.randn_like(w) for w in want]
    for g, w in zip(got, want, strict=True):
        assert g.stride() == w.stride() and torch.allclose(g, w, atol=1e-6)
    assert len({g.untyped_storage().data_ptr() for g in got}) == len({w.untyped_storage().data_ptr() for w in want})
    mine, eagers = (torch.autograd.grad(found, x, gradients)[0] for found in (got, want))
    assert torch.allclose(mine, eagers, atol=1e-5)


def test_overlapping_arguments() -> None:
    def step(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        y.add_(1)
        return x.unfold(1, 2, 1), y[1:].unfold(0, 2, 2)

    memory = torch.randn(40)
    mine, eagers = memory.clone(), memory.clone()
    got = torch.compile(step, backend="lamina")(mine[:35].view(5, 7), mine[5:].view(7, 5))
    want = step(eagers[:35].view(5, 7), eagers[5:].view(7, 5))
    assert all(torch.equal(g, w) and g.stride() == w.stride() for g, w in zip(got, want, strict=True))
    assert all(g.untyped_storage().data_ptr() == mine.untyped_storage().data_ptr() for g in got)
