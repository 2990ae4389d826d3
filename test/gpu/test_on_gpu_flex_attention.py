"""Compares flex_attention on a GPU, in both passes, with torch's own in float64."""

import pytest
import torch
from flex_attentions import FLEX, operands
from torch import Tensor

import lamina

BF16, F16 = torch.bfloat16, torch.float16
OPTIONS = {"strict": True, "cache": False}


def near(found: Tensor, want: Tensor, bound: float) -> None:
    assert found.shape == want.shape and bool(found.isfinite().all())
    far = float((found.double() - want).norm())
    assert far <= bound * max(float(want.norm()), 1.0), far


def wide(tensors: list[Tensor]) -> list[Tensor]:
    return [t.detach().double() if t.is_floating_point() else t for t in tensors]


def given(name: str, length: int, size: int = 64, dtype: torch.dtype = BF16) -> list[Tensor]:
    made = [*operands(queries=length, keys=length, size=size, dtype=dtype), *FLEX[name].tensors(2, 4, length, length)]
    return [t.cuda() for t in made]


@pytest.mark.parametrize("length", [127, 1000])
@pytest.mark.parametrize("name", FLEX)
def test_values_and_gradients(name: str, length: int) -> None:
    fn, tensors = FLEX[name], given(name, length)
    torch._dynamo.reset()
    run = torch.compile(fn, backend="lamina", options=OPTIONS, dynamic=False, fullgraph=True)
    with torch.no_grad():
        near(run(*tensors), fn(*wide(tensors)), 8e-3)
    trained = [0, 1, 2, *(3 + i for i in fn.learned)]
    leaves = [t.detach().requires_grad_(i in trained) for i, t in enumerate(tensors)]
    exact = [t.requires_grad_(i in trained) for i, t in enumerate(wide(tensors))]
    out = run(*leaves)
    grad = torch.randn_like(out)
    got = torch.autograd.grad(out, [leaves[i] for i in trained], grad)
    want = torch.autograd.grad(fn(*exact), [exact[i] for i in trained], grad.double())
    for one, other in zip(got, want, strict=True):
        near(one, other, 1.2e-2)


@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("name", ["window", "documents", "slopes", "cap"])
def test_long(name: str, size: int) -> None:
    """With lists of blocks, and specialized warps."""
    fn, tensors = FLEX[name], given(name, 2048, size)
    torch._dynamo.reset()
    run = torch.compile(fn, backend="lamina", options=OPTIONS, dynamic=False, fullgraph=True)
    leaves = [t.requires_grad_(i < 3) for i, t in enumerate(tensors)]
    exact = [t.requires_grad_(i < 3) for i, t in enumerate(wide(tensors))]
    out, truth = run(*leaves), fn(*exact)
    near(out.detach(), truth.detach(), 8e-3)
    grad = torch.randn_like(out)
    for one, other in zip(
        torch.autograd.grad(out, leaves[:3], grad), torch.autograd.grad(truth, exact[:3], grad.double()), strict=True
    ):
        near(one, other, 1.2e-2)


@pytest.mark.parametrize("name", ["window", "documents", "cap", "later"])
def test_symbolic_lengths(name: str) -> None:
    fn = FLEX[name]
    torch._dynamo.reset()
    run = torch.compile(fn, backend="lamina", options=OPTIONS, dynamic=True, fullgraph=True)
    with torch.no_grad():
        for length in (300, 200, 1000):
            tensors = given(name, length, dtype=F16)
            near(run(*tensors), fn(*wide(tensors)), 4e-3)


def test_ahead() -> None:
    fn, tensors = FLEX["cap and more"], given("cap and more", 300)
    with torch.no_grad():
        near(lamina.compile(fn, tuple(tensors), options=OPTIONS)(*tensors), fn(*wide(tensors)), 8e-3)
