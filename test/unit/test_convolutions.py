"""Convolutions in other forms: of few channels, of patches; which they are, without a GPU, and what they compute."""

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx
from torch._prims_common import suggest_memory_format
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from lamina.core.options import Options
from lamina.core.program import Call, Launch, Program, Ref
from lamina.frontend.compiling.stages import build
from lamina.frontend.decompositions.convolutions import in_another_form, of_blocks
from lamina.frontend.decompositions.table import table
from lamina.passes.families.conv.calls import channels_last

pytestmark = pytest.mark.usefixtures("channels_last")

aten = torch.ops.aten
BF16 = torch.bfloat16
LIBRARY = (aten.convolution.default, aten.mm.default, aten.addmm.default)
Shape = tuple[int, ...]


def traced(x: Shape, w: Shape, dtype: torch.dtype = BF16, device: str = "cuda", bias: bool = True, **how: Any) -> fx.GraphModule:
    def fn(x: Tensor, w: Tensor, *b: Tensor) -> Tensor:
        return F.conv2d(x, w, *b, **how)

    with FakeTensorMode():
        inputs = [torch.empty(shape, dtype=dtype, device=device) for shape in (x, w, *([w[:1]] if bias else []))]
        return make_fx(fn, decomposition_table=table())(*inputs)


def calls(*given: Any, **how: Any) -> list[fx.Node]:
    """The library calls that a convolution becomes."""
    graph = traced(*given, **how).graph
    (result,) = graph.output_node().all_input_nodes
    assert result.meta["val"].is_contiguous(), "as eager gives it"
    return [n for n in graph.nodes if n.target in LIBRARY]


STEMS: list[tuple[Shape, Shape, int, int, Shape, Shape]] = [
    ((64, 3, 224, 224), (64, 3, 7, 7), 2, 3, (64, 16, 115, 115), (64, 16, 4, 4)),
    ((1, 3, 224, 224), (16, 3, 3, 3), 2, 1, (1, 16, 113, 113), (16, 16, 2, 2)),
    ((2, 1, 33, 30), (8, 1, 4, 4), 2, 0, (2, 16, 16, 15), (8, 16, 2, 2)),
    ((32, 3, 224, 224), (64, 3, 3, 3), 1, 1, (32, 16, 224, 224), (64, 16, 3, 3)),
    ((4, 5, 64, 64), (64, 5, 5, 5), 2, 2, (4, 16, 64, 64), (64, 16, 5, 5)),
    ((4, 7, 64, 64), (64, 7, 7, 7), 3, 2, (4, 16, 64, 64), (64, 16, 7, 7)),
]


@pytest.mark.parametrize(("x", "w", "stride", "padding", "image", "weight"), STEMS)
def test_few_channels_become_sixteen(x: Shape, w: Shape, stride: int, padding: int, image: Shape, weight: Shape) -> None:
    (call,) = calls(x, w, stride=stride, padding=padding)
    assert call.target is aten.convolution.default
    assert tuple(tuple(call.args[i].meta["val"].shape) for i in (0, 1)) == (image, weight)
    assert call.meta["val"].shape == F.conv2d(*(torch.empty(s, device="meta") for s in (x, w)), None, stride, padding).shape


@pytest.mark.parametrize(("x", "w", "stride", "padding", "image", "weight"), STEMS)
def test_the_plan_of_few_channels(x: Shape, w: Shape, stride: int, padding: int, image: Shape, weight: Shape) -> None:
    """One kernel of Lamina's makes the image, one or the same the weight, and both lie as cuDNN takes them."""
    program = planned(traced(x, w, bias=False, stride=stride, padding=padding))
    at = next(i for i, step in enumerate(program.steps) if isinstance(step, Call))
    call, before = program.steps[at], program.steps[:at]
    assert isinstance(call, Call)
    refs = [a for a in call.args if isinstance(a, Ref)]
    assert [(r.shape, r.strides) for r in refs] == [(s, channels_last(s)) for s in (image, weight)]
    assert all(isinstance(step, Launch) for step in before) and len(before) <= 2


def planned(gm: fx.GraphModule) -> Program:
    return build(gm, options=Options(cache=False, tune="off"), target="nvvm:sm_90a").program


@pytest.mark.parametrize(
    ("x", "w"), [((1, 64, 14, 14), (32, 64, 1, 1)), ((1, 64, 1, 9), (32, 64, 1, 3)), ((1, 1, 9, 9), (16, 1, 3, 3))]
)
def test_one_image_and_a_weight_of_one_pixel_have_channels_last_for_torch(x: Shape, w: Shape) -> None:
    """Strides that fit channels first as well are taken for those, and images copied."""
    program = planned(traced(x, w, bias=False))
    (call,) = (step for step in program.steps if isinstance(step, Call))
    for ref in (a for a in call.args if isinstance(a, Ref)):
        assert suggest_memory_format(torch.empty_strided(ref.shape, ref.strides)) is torch.channels_last


@pytest.mark.parametrize("kernel", [(3, 3), (7, 7), (3, 4), (5, 8), (2, 6), (1, 2)])
@pytest.mark.parametrize("size", [(16, 16), (17, 15), (15, 18), (9, 8)])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_blocks_of_pixels(channels: int, size: Shape, kernel: Shape) -> None:
    """With numbers of which every sum is exact, so that zeros in the wrong place are found whatever the order of adding."""
    torch.manual_seed(0)
    x, w = (torch.randint(-8, 9, s).double() for s in ((2, channels, *size), (3, channels, *kernel)))
    for padding in itertools.product(*(range(k + 1) for k in kernel)):
        image, weight = of_blocks(x, w, padding)
        assert image.shape[1] == weight.shape[1] == 16
        assert torch.equal(F.conv2d(image, weight), F.conv2d(x, w, stride=2, padding=padding))


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
        ((2, 3, 32, 32), (16, 3, 1, 1), BF16, "cuda", {"stride": 2}),  # kernels of less than 3x3 pixels
        ((2, 3, 32, 32), (16, 3, 2, 2), BF16, "cuda", {"stride": 2, "padding": 1}),
        ((2, 3, 32, 32), (64, 3, 1, 5), BF16, "cuda", {}),
        ((2, 8, 32, 32), (64, 8, 3, 3), BF16, "cuda", {"stride": 2}),
        ((2, 3, 32, 32), (16, 3, 3, 3), BF16, "cuda", {"stride": 1}),  # the copy would take longer than it saves
        ((2, 3, 32, 32), (16, 3, 3, 3), BF16, "cuda", {"stride": 2, "dilation": 2}),
    ],
)
def test_what_stays(x: Shape, w: Shape, dtype: torch.dtype, device: str, how: dict[str, Any]) -> None:
    (call,) = calls(x, w, dtype, device, **how)
    assert call.target is aten.convolution.default
    assert tuple(call.args[i].meta["val"].shape for i in (0, 1)) == (x, w)


FORMS: list[tuple[Shape, Shape, dict[str, list[int]]]] = [
    ((2, 3, 17, 19), (8, 3, 7, 7), {"stride": [2, 2], "padding": [3, 3]}),
    ((1, 3, 18, 19), (8, 3, 3, 4), {"stride": [2], "padding": [1]}),
    ((1, 5, 9, 9), (128, 5, 3, 3), {"stride": [1, 2], "padding": [1, 0], "dilation": [1, 2]}),
    ((1, 3, 9, 9), (64, 3, 3, 3), {"padding": [1, 1]}),
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
    assert got.is_contiguous(memory_format=suggest_memory_format(image))
