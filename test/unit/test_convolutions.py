"""Convolutions in other forms: of few channels, of patches; which they are, without a GPU, and what they compute."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx
from torch._prims_common import suggest_memory_format
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from lamina.frontend.convolutions import in_another_form
from lamina.frontend.decompositions import table

aten = torch.ops.aten
BF16 = torch.bfloat16
LIBRARY = (aten.convolution.default, aten.mm.default, aten.addmm.default)
Shape = tuple[int, ...]


def calls(x: Shape, w: Shape, dtype: torch.dtype = BF16, device: str = "cuda", bias: bool = True, **how: Any) -> list[fx.Node]:
    """The library calls that a convolution becomes."""

    def fn(x: Tensor, w: Tensor, *b: Tensor) -> Tensor:
        return F.conv2d(x, w, *b, **how)

    with FakeTensorMode():
        inputs = [torch.empty(shape, dtype=dtype, device=device) for shape in (x, w, *([w[:1]] if bias else []))]
        gm = make_fx(fn, decomposition_table=table())(*inputs)
    (result,) = gm.graph.output_node().all_input_nodes
    assert result.meta["val"].is_contiguous(), "as eager gives it"
    return [n for n in gm.graph.nodes if n.target in LIBRARY]


@pytest.mark.parametrize(("channels", "padded"), [(1, 4), (2, 4), (3, 4), (4, 4), (5, 8), (7, 8), (8, 8), (9, 9)])
def test_few_channels_are_filled_up(channels: int, padded: int) -> None:
    (call,) = calls((2, channels, 32, 32), (16, channels, 7, 7), stride=2, padding=3)
    assert call.target is aten.convolution.default
    image, weight = (call.args[i].meta["val"].shape for i in (0, 1))
    assert (image, weight) == ((2, padded, 32, 32), (16, padded, 7, 7))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("channels", "size", "kernel"), [(3, (32, 48), (16, 16)), (32, (9, 8), (2, 2)), (1, (30, 31), (3, 4))])
def test_patches_are_a_product(channels: int, size: Shape, kernel: Shape, bias: bool) -> None:
    (call,) = calls((2, channels, *size), (24, channels, *kernel), stride=kernel, bias=bias)
    assert call.target is (aten.addmm.default if bias else aten.mm.default)
    rows = 2 * (size[0] // kernel[0]) * (size[1] // kernel[1])
    assert call.meta["val"].shape == (rows, 24)


@pytest.mark.parametrize(
    ("x", "w", "dtype", "device", "how"),
    [
        ((2, 3, 32, 32), (16, 3, 7, 7), torch.float32, "cuda", {"stride": 2}),
        ((2, 3, 32, 32), (16, 3, 7, 7), BF16, "cpu", {"stride": 2}),
        ((2, 3, 32, 32), (16, 3, 4, 4), torch.float32, "cuda", {"stride": 4}),
        ((2, 6, 32, 32), (6, 1, 3, 3), BF16, "cuda", {"groups": 6}),
        ((2, 16, 32, 32), (32, 16, 1, 1), BF16, "cuda", {}),
        ((2, 16, 32, 32), (32, 16, 2, 2), BF16, "cuda", {"stride": 2, "padding": 1}),
        ((2, 16, 32, 32), (32, 16, 2, 2), BF16, "cuda", {"stride": 2, "dilation": 2}),
        ((2, 16, 32, 32), (32, 16, 2, 2), BF16, "cuda", {"stride": (2, 1)}),
    ],
)
def test_what_stays(x: Shape, w: Shape, dtype: torch.dtype, device: str, how: dict[str, Any]) -> None:
    (call,) = calls(x, w, dtype, device, **how)
    assert call.target is aten.convolution.default
    assert tuple(call.args[i].meta["val"].shape for i in (0, 1)) == (x, w)


FORMS: list[tuple[Shape, Shape, dict[str, list[int]]]] = [
    ((2, 3, 17, 19), (8, 3, 7, 7), {"stride": [2, 2], "padding": [3, 3]}),
    ((1, 5, 9, 9), (8, 5, 3, 3), {"stride": [1, 2], "padding": [1, 0], "dilation": [1, 2]}),
    ((2, 3, 33, 34), (16, 3, 16, 8), {"stride": [16, 8]}),
    ((3, 12, 9, 7), (5, 12, 2, 3), {"stride": [2, 3]}),
    ((1, 3, 4, 4), (8, 3, 4, 4), {"stride": [4, 4]}),
]


@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("x", "w", "how"), FORMS)
def test_numbers(x: Shape, w: Shape, how: dict[str, list[int]], bias: bool, memory: torch.memory_format) -> None:
    torch.manual_seed(0)
    image = torch.randn(x).to(BF16).contiguous(memory_format=memory)
    weight, b = torch.randn(w).to(BF16), torch.randn(w[0]).to(BF16) if bias else None
    given = {"stride": [1, 1], "padding": [0, 0], "dilation": [1, 1], **how}
    got = in_another_form(image, weight, b, *given.values(), False, [0, 0], 1)
    assert got is not None
    exact = F.conv2d(image.double(), weight.double(), None if b is None else b.double(), **given)
    torch.testing.assert_close(got.double(), exact, rtol=1e-2, atol=5e-2)
    if how["stride"] == list(w[2:]):
        assert got.is_contiguous(memory_format=suggest_memory_format(image))
