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


PIXELS = ((64, 24, 1, 1), (72, 24, 1, 1))


@pytest.mark.parametrize("bias", [True, False])
def test_a_convolution_of_pixels_is_a_product(monkeypatch: pytest.MonkeyPatch, bias: bool) -> None:
    gm = graph(F.conv2d, *PIXELS, *([(72,)] if bias else []))
    (product,) = calls(gm, aten.addmm.default if bias else aten.mm.default)
    assert product.meta["val"].shape == (64, 72) and not calls(gm, aten.convolution.default)
    monkeypatch.setattr(decompositions_library, "on_gpu", lambda x: True)
    x, w, b = (torch.randn(shape) for shape in (*PIXELS, (72,)))
    got = decompositions_library.convolution(x, w, b if bias else None, [2, 1], [0, 0], [1, 1], False, [0, 0], 1)
    expected = F.conv2d(x.double(), w.double(), b.double() if bias else None, [2, 1])
    assert got.shape == expected.shape
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("x", "w", "options", "device"),
    [
        (*PIXELS, {}, "cpu"),
        (*PIXELS, {"padding": 1}, "cuda"),
        ((64, 24, 1, 1), (72, 12, 1, 1), {"groups": 2}, "cuda"),
        ((64, 24, 1, 2), (72, 24, 1, 1), {}, "cuda"),
        ((64, 24, 1, 1), (72, 24, 3, 3), {"padding": 1}, "cuda"),
        ((0, 24, 1, 1), (72, 24, 1, 1), {}, "cuda"),
        ((64, 24, 5), (72, 24, 3), {}, "cuda"),
    ],
)
def test_convolutions_that_stay(x: tuple[int, ...], w: tuple[int, ...], options: dict[str, int], device: str) -> None:
    run = F.conv2d if len(x) == 4 else F.conv1d
    assert calls(graph(lambda a, b: run(a, b, **options), x, w, device=device), aten.convolution.default)


def test_a_convolutions_bias_is_added_by_a_kernel_of_ours() -> None:
    def block(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.conv2d(x, w, b, stride=2, padding=1).relu()

    shapes = (2, 8, 9, 9), (4, 8, 3, 3), (4,)
    (convolution,) = calls(graph(block, *shapes), aten.convolution.default)
    assert convolution.args[2] is None
    (convolution,) = calls(graph(block, *shapes, device="cpu"), aten.convolution.default)
    assert convolution.args[2] is not None


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_a_bias_that_is_added_is_the_same(monkeypatch: pytest.MonkeyPatch, dims: int) -> None:
    monkeypatch.setattr(decompositions_library, "on_gpu", lambda x: True)
    x, w, b = torch.randn(2, 4, *[5] * dims), torch.randn(6, 2, *[3] * dims), torch.randn(6)
    rest = [1] * dims, [1] * dims, [1] * dims, False, [0] * dims, 2
    got = decompositions_library.convolution(x, w, b, *rest)
    torch.testing.assert_close(
        got.double(), aten.convolution.default(x.double(), w.double(), b.double(), *rest), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("mask", [[True, True, True], [False, True, True], [True, False, False], [False, False, True]])
@pytest.mark.parametrize("sizes", [((2, 3, 9, 7), (4, 3, 3, 3)), ((2, 3, 9), (4, 3, 3)), ((2, 3, 5, 6, 7), (4, 3, 2, 2, 2))])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_gradients_of_convolutions(
    monkeypatch: pytest.MonkeyPatch, mask: list[bool], sizes: tuple[tuple[int, ...], ...], dtype: torch.dtype
) -> None:
    """The bias's gradient is a sum in a kernel; those of 1-D convolutions of half types are of images of one row."""
    monkeypatch.setattr(decompositions_library, "on_gpu", lambda x: True)
    shape, kernel = sizes
    x, weight = torch.randn(shape, dtype=dtype), torch.randn(kernel, dtype=dtype)
    how = [[2] * (x.dim() - 2), [1] * (x.dim() - 2), [1] * (x.dim() - 2), False, [0] * (x.dim() - 2), 1]
    grad = torch.randn_like(aten.convolution.default(x, weight, None, *how))
    found = decompositions_library.convolution_backward(grad, x, weight, [4], *how, mask)
    if found is NotImplemented:
        assert not mask[2] and (x.dim() > 3 or dtype == torch.float64)
        return
    wide = [t.double() for t in (grad, x, weight)]
    exact = aten.convolution_backward.default(*wide, [4], *how, [True, True, True])
    for mine, right, wanted in zip(found, exact, mask, strict=True):
        assert (mine is not None) == wanted
        if mine is not None:
            bound = {"rtol": 1e-9, "atol": 1e-9} if dtype == torch.float64 else {"rtol": 2e-2, "atol": 0.2}
            torch.testing.assert_close(mine.double(), right, **bound)
