"""Results that stay in the wider tensor that a library computed."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from lamina.frontend.calls.padded import leave_room
from lamina.frontend.decompositions.ops import library as decompositions_library
from lamina.frontend.decompositions.table import table

aten = torch.ops.aten
WIDTH, WIDE = 13, 16


@pytest.fixture(autouse=True)
def fill_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products on the CPU are filled up as on a GPU, where it always pays."""
    monkeypatch.setattr(decompositions_library, "on_gpu", lambda x: True)
    monkeypatch.setattr(decompositions_library, "_SLOW", 1.0)


def graph(fn: Callable[..., object], *inputs: Tensor, mode: str = "fake") -> fx.GraphModule:
    return leave_room(make_fx(fn, decomposition_table=table(), tracing_mode=mode)(*inputs))


def copies(gm: fx.GraphModule) -> int:
    return sum(node.target is aten.clone.default for node in gm.graph.nodes)


X = torch.randn(2, 5, 8, dtype=torch.float16)
W = torch.randn(WIDTH, 8, dtype=torch.float16)
B = torch.randn(WIDTH, dtype=torch.float16)


@pytest.mark.parametrize("bias", [False, True])
def test_a_result_keeps_the_strides_of_its_product(bias: bool) -> None:
    inputs = (X, W, B) if bias else (X, W)
    gm = graph(lambda *given: [F.linear(*given)], *inputs)
    (got,) = gm(*inputs)
    assert copies(gm) == 0
    assert got.shape == (2, 5, WIDTH) and got.stride() == (5 * WIDE, WIDE, 1)
    (result,) = next(node for node in gm.graph.nodes if node.op == "output").all_input_nodes
    assert result.meta["val"].stride() == got.stride()
    exact = F.linear(*(t.double() for t in inputs))
    torch.testing.assert_close(got.double(), exact, rtol=4e-3, atol=4e-3)


def test_views_of_symbolic_sizes_are_repeated() -> None:
    gm = graph(lambda x, w: [F.linear(x, w)], X, W, mode="symbolic")
    assert copies(gm) == 0
    for batch, length in ((2, 5), (3, 7)):
        x = torch.randn(batch, length, 8, dtype=torch.float16)
        (got,) = gm(x, W)
        assert got.shape == (batch, length, WIDTH) and got.stride() == (length * WIDE, WIDE, 1)
        torch.testing.assert_close(got, F.linear(x, W), rtol=4e-3, atol=4e-3)


def test_what_else_reads_it_reads_the_copy() -> None:
    """Pointwise results have the strides of what they read, and eager's have no room."""

    def both(x: Tensor, w: Tensor) -> list[Tensor]:
        y = F.linear(x, w)
        return [y, torch.relu(y)]

    gm = graph(both, X, W)
    y, positive = gm(X, W)
    assert y.stride() == (5 * WIDE, WIDE, 1) and positive.is_contiguous()
    torch.testing.assert_close(positive, torch.relu(y))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, w: [F.linear(x, w).flatten()],
        lambda x, w: [F.linear(x, w).transpose(1, 2)],
        lambda x, w: [torch.relu(F.linear(x, w))],
        lambda x, w: [F.linear(x, w)[..., :5]],
    ],
)
def test_results_that_need_eagers_memory_have_it(fn: Callable[..., list[Tensor]]) -> None:
    gm = graph(fn, X, W)
    (got,), (wanted,) = gm(X, W), fn(X, W)
    assert got.stride() == wanted.stride()
    torch.testing.assert_close(got, wanted, rtol=4e-3, atol=4e-3)


def test_columns_that_a_model_takes_itself_are_copied() -> None:
    """What it holds on to is not twice as large as in eager."""
    x, w = torch.randn(8, 8), torch.randn(8, 16)
    gm = graph(lambda x, w: [(x @ w)[:, :8].clone()], x, w)
    (got,) = gm(x, w)
    assert copies(gm) == 1 and got.is_contiguous()


WIDER = torch.randn(8, WIDE, dtype=torch.float16)


@pytest.mark.parametrize(
    ("fn", "weight"),
    [
        (lambda x, w: [(y := x[0] @ w), y[:, :WIDTH].clone()], WIDER),
        (lambda x, w: [(y := x[0] @ w)[:, :WIDTH].clone(), y[:, :WIDTH].clone()], WIDER),
        (lambda x, w: [(y := x[0] @ w)[:, 2:5], y[:, :WIDTH].clone()], WIDER),
        (lambda x, w: [(y := F.linear(x, w)), y.clone()], W),
        (lambda x, w: [(y := F.linear(x, w)), y.flatten()], W),
        (lambda x, w: [(y := F.linear(x, w)), y.transpose(1, 2)], W),
        (lambda x, w: [(y := F.linear(x, w)), y.view(10, WIDTH)], W),
    ],
)
def test_results_share_memory_as_in_eager(fn: Callable[..., list[Tensor]], weight: Tensor) -> None:
    """What a caller writes to one is in those that eager has it in, and in no other."""
    one, other = graph(fn, X, weight)(X, weight)
    first, second = fn(X, weight)
    alike = first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    assert (one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()) is alike


def test_every_second_column_is_no_first_one() -> None:
    x, w = torch.randn(8, 8), torch.randn(8, 8)
    (got,) = graph(lambda x, w: [(x @ w)[:, ::2].clone()], x, w)(x, w)
    assert got.is_contiguous()
