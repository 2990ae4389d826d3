"""What is put around the calls of libraries on GPUs, without a GPU."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from lamina.frontend.decompositions.ops import library as decompositions_library
from lamina.frontend.decompositions.table import table

aten = torch.ops.aten
BF16 = torch.bfloat16


def graph(fn: Callable[..., Tensor], *shapes: tuple[int, ...], dtype: torch.dtype = BF16, device: str = "cuda") -> fx.GraphModule:
    with FakeTensorMode():
        inputs = [torch.empty(shape, dtype=dtype, device=device) for shape in shapes]
        return make_fx(fn, decomposition_table=table())(*inputs)


def calls(gm: fx.GraphModule, target: object) -> list[fx.Node]:
    return [n for n in gm.graph.nodes if n.target is target]


def test_a_large_product_of_odd_width_is_filled_up() -> None:
    gm = graph(F.linear, (8192, 768), (50257, 768))
    (product,) = calls(gm, aten.mm.default)
    assert product.meta["val"].shape == (8192, 50264)
    (filled,) = calls(gm, aten.constant_pad_nd.default)
    assert filled.meta["val"].shape == (50264, 768)  # as the weight lies in memory
    (result,) = next(iter(reversed(gm.graph.nodes))).all_input_nodes
    assert result.meta["val"].shape == (8192, 50257) and result.meta["val"].is_contiguous()


@pytest.mark.parametrize(
    ("shapes", "dtype", "device"),
    [
        (((8192, 768), (50264, 768)), BF16, "cuda"),  # aligned
        (((32, 768), (50257, 768)), BF16, "cuda"),  # bound by the weight's bytes
        (((8192, 768), (50257, 768)), torch.float32, "cuda"),
        (((8192, 768), (50257, 768)), BF16, "cpu"),
    ],
)
def test_products_that_stay(shapes: tuple[tuple[int, ...], ...], dtype: torch.dtype, device: str) -> None:
    assert not calls(graph(F.linear, *shapes, dtype=dtype, device=device), aten.constant_pad_nd.default)


@pytest.mark.parametrize(("m", "k", "n"), [(5, 8, 7), (5, 7, 8), (3, 9, 1), (4, 17, 17)])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_filled_up_products_are_the_same(
    monkeypatch: pytest.MonkeyPatch, m: int, k: int, n: int, transposed: bool, first: bool
) -> None:
    monkeypatch.setattr(decompositions_library, "on_gpu", lambda x: True)
    monkeypatch.setattr(decompositions_library, "_SLOW", 1.0)  # it always pays
    a = torch.randn(k, m, dtype=torch.float16).t() if first else torch.randn(m, k, dtype=torch.float16)
    b = torch.randn(n, k, dtype=torch.float16).t() if transposed else torch.randn(k, n, dtype=torch.float16)
    exact = a.double() @ b.double()
    torch.testing.assert_close(decompositions_library.mm(a, b).double(), exact, rtol=2e-3, atol=2e-3)
    for bias in (torch.randn(n).half(), torch.randn(m, n).half(), torch.randn(m, 1).half(), torch.randn(()).half()):
        got = decompositions_library.addmm(bias, a, b, beta=0.5, alpha=2.0)
        torch.testing.assert_close(got.double(), 0.5 * bias.double() + 2 * exact, rtol=4e-3, atol=4e-3)


def test_gradients_of_a_product_of_odd_width_share_what_is_filled_up() -> None:
    """That of the weight reads the columns of what that of the input reads the rows of; its result has more rows, of which the
    first are returned."""

    def both(grad: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        return grad @ w, grad.t() @ x

    gm = graph(both, (8192, 50257), (8192, 768), (50257, 768))  # type: ignore[arg-type]
    assert [p.meta["val"].shape for p in calls(gm, aten.mm.default)] == [(8192, 768), (50264, 768)]
    filled = sorted(tuple(n.meta["val"].shape) for n in calls(gm, aten.constant_pad_nd.default))
    assert filled == [(8192, 50264), (8192, 50264), (50264, 768)]
