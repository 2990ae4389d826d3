"""Tests products that are padded for a library: their values, and results that stay in the wider tensor that it computes."""

from collections.abc import Callable

import pytest
import torch
from gpu_programs import Simulated, distributed
from torch import Tensor
from torch.nn import functional as F

import lamina
from lamina.core.program import Call
from lamina.passes.families.gemm import pad_products

Results = Callable[..., list[Tensor]]
WIDTH, WIDE = 13, 16
X = torch.randn(2, 5, 8, dtype=torch.float16)
W = torch.randn(WIDTH, 8, dtype=torch.float16)
B = torch.randn(WIDTH, dtype=torch.float16)
WIDER = torch.randn(8, WIDE, dtype=torch.float16)


@pytest.fixture(autouse=True)
def always_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pad_products, "_pays", lambda *_: True)


def ran(fn: Results, *inputs: Tensor) -> tuple[list[Tensor], Simulated]:
    """Returns the results of a program for a GPU, and the program."""
    run = Simulated(*distributed(fn, inputs))
    return run(*inputs), run


def widths(run: Simulated) -> list[object]:
    return [step.outs[0].shape[-1] for step in run.program.steps if isinstance(step, Call)]


@pytest.mark.parametrize(("m", "k", "n"), [(5, 8, 7), (5, 7, 8), (3, 9, 1), (4, 17, 17)])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_padded_products_are_the_same(m: int, k: int, n: int, transposed: bool, first: bool) -> None:
    a = torch.randn(k, m, dtype=torch.float16).t() if first else torch.randn(m, k, dtype=torch.float16)
    b = torch.randn(n, k, dtype=torch.float16).t() if transposed else torch.randn(k, n, dtype=torch.float16)
    biases = torch.randn(n).half(), torch.randn(m, n).half(), torch.randn(m, 1).half(), torch.randn(()).half()

    def products(a: Tensor, b: Tensor, *biases: Tensor) -> list[Tensor]:
        return [a @ b, *(torch.addmm(bias, a, b, beta=0.5, alpha=2.0) for bias in biases)]

    (product, *added), run = ran(products, a, b, *biases)
    assert all(width % 8 == 0 for width in widths(run))  # type: ignore[operator]
    exact = a.double() @ b.double()
    torch.testing.assert_close(product.double(), exact, rtol=2e-3, atol=2e-3)
    for got, bias in zip(added, biases, strict=True):
        torch.testing.assert_close(got.double(), 0.5 * bias.double() + 2 * exact, rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("bias", [False, True])
def test_a_result_keeps_the_strides_of_its_product(bias: bool) -> None:
    inputs = (X, W, B) if bias else (X, W)
    (got,), run = ran(lambda *given: [F.linear(*given)], *inputs)
    assert widths(run) == [WIDE] and got.shape == (2, 5, WIDTH) and got.stride() == (5 * WIDE, WIDE, 1)
    exact = F.linear(*(t.double() for t in inputs))
    torch.testing.assert_close(got.double(), exact, rtol=4e-3, atol=4e-3)


def test_what_else_reads_it_has_no_room() -> None:
    """Only products see the padding: pointwise results have eager's strides."""
    (y, positive), _ = ran(lambda x, w: [(y := F.linear(x, w)), torch.relu(y)], X, W)
    assert y.stride() == (5 * WIDE, WIDE, 1) and positive.is_contiguous()
    torch.testing.assert_close(positive, torch.relu(y))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, w: [F.linear(x, w).flatten()],
        lambda x, w: [F.linear(x, w).transpose(1, 2)],
        lambda x, w: [torch.relu(F.linear(x, w))],
        lambda x, w: [F.linear(x, w)[..., :5]],
        lambda x, w: [F.linear(x, w)[..., :5].clone()],
        lambda x, w: [F.linear(x, w)[..., ::2].clone()],
        lambda x, w: [F.linear(x, w)[:, -1:].clone()],
    ],
)
def test_results_that_need_eagers_memory_have_it(fn: Results) -> None:
    """A result that the caller keeps must not be twice as large as in eager."""
    ((got,), run), (wanted,) = ran(fn, X, W), fn(X, W)
    assert widths(run) == [WIDE] and got.stride() == wanted.stride()
    torch.testing.assert_close(got, wanted, rtol=4e-3, atol=4e-3)


def test_columns_that_a_model_takes_itself_are_copied() -> None:
    (got,), _ = ran(lambda x, w: [(x[0] @ w)[:, :WIDTH].clone()], X, WIDER)
    assert got.is_contiguous()


@pytest.mark.parametrize(
    ("fn", "weight"),
    [
        (lambda x, w: [(y := x[0] @ w), y[:, :WIDTH].clone()], WIDER),
        (lambda x, w: [(y := x[0] @ w)[:, 2:5], y[:, :WIDTH].clone()], WIDER),
        (lambda x, w: [(y := F.linear(x, w)), y.clone()], W),
        (lambda x, w: [(y := F.linear(x, w)), y.flatten()], W),
        (lambda x, w: [(y := F.linear(x, w)), y.transpose(1, 2)], W),
        (lambda x, w: [(y := F.linear(x, w)), y.view(10, WIDTH)], W),
    ],
)
def test_results_share_memory_as_in_eager(fn: Results, weight: Tensor) -> None:
    """A write to one result is visible in exactly those that share memory with it in eager."""
    (_, run), (first, second) = ran(fn, X, weight), fn(X, weight)
    alike = first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    one, other = run.program.outputs
    assert (one.buffer == other.buffer) is alike


@pytest.mark.filterwarnings("error")
def test_one_compilation_serves_all_sizes() -> None:
    target = {"target": "null:nvvm:sm_90a"}
    compiled = torch.compile(F.linear, backend="lamina", dynamic=True, options=target)
    torch._dynamo.mark_static(W)
    for batch, length in ((2, 5), (3, 7)):
        with torch.no_grad():
            got = compiled(torch.randn(batch, length, 8).half(), W)
        assert got.shape == (batch, length, WIDTH) and got.stride() == (length * WIDE, WIDE, 1)


def test_a_graph_with_gradients_has_results_without_room() -> None:
    compiled = torch.compile(F.linear, backend="lamina", options={"target": "null:nvvm:sm_90a"})
    weight = W.clone().requires_grad_()
    got = compiled(X, weight)
    got.sum().backward()
    assert got.is_contiguous() and weight.grad is not None and weight.grad.shape == W.shape


def test_lamina_compile_keeps_the_strides_too() -> None:
    with torch.no_grad():
        compiled = lamina.compile(F.linear, (X, W), target="null:nvvm:sm_90a", options={"cache": False})
        assert compiled(X, W).stride() == (5 * WIDE, WIDE, 1)
