"""Tests other forms of convolutions (few channels, patches) without a GPU: which are rewritten, and their values."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from gpu_programs import TARGET, Simulated, distribute, tiled
from pairs import pairwise
from torch import Tensor, fx
from torch._prims_common import suggest_memory_format
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch_mlir import ir

from lamina.core.options import Options
from lamina.core.program import Call, Launch, Program, Ref
from lamina.dialects import context
from lamina.frontend.compiling.stages import build, import_linalg
from lamina.frontend.decompositions.table import table
from lamina.frontend.rewrites.normalize import normalize
from lamina.passes.families.conv.calls import channels_last
from lamina.passes.families.conv.few_channels import space_to_depth
from lamina.passes.families.surroundings import calls as calls_of
from lamina.passes.infra.pipeline import run
from lamina.passes.ir.reading import shape_of
from lamina.passes.simplify.evaluate import evaluate_op
from lamina.targets.levels import pipeline

pytestmark = pytest.mark.usefixtures("channels_last")

BF16 = torch.bfloat16
FORWARD, BACKWARD, MM, ADDMM = (f"aten.{name}.default" for name in ("convolution", "convolution_backward", "mm", "addmm"))
Shape = tuple[int, ...]


def traced(x: Shape, w: Shape, dtype: torch.dtype = BF16, bias: bool = True, **how: Any) -> fx.GraphModule:
    def fn(x: Tensor, w: Tensor, *b: Tensor) -> Tensor:
        return (F.conv2d if x.dim() == 4 else F.conv1d)(x, w, *b, **how)

    with FakeTensorMode():
        inputs = [torch.empty(shape, dtype=dtype, device="cuda") for shape in (x, w, *([w[:1]] if bias else []))]
        return make_fx(fn, decomposition_table=table())(*inputs)


class Called(NamedTuple):
    """A library call: its operands' shapes, and its results'."""

    callee: str
    operands: list[Shape]
    results: list[Shape]


def formed(gm: fx.GraphModule) -> list[Called]:
    """The library calls that a GPU's forms of a graph's convolutions are."""
    module = import_linalg(normalize(gm), Options())
    run(f"builtin.module(lamina-extern,lamina-convolution-forms{{target={TARGET}}})", module)
    module.operation.verify()
    return [
        Called(ir.StringAttr(op.attributes["callee"]).value, [*map(shape_of, op.operands)], [*map(shape_of, op.results)])
        for op in calls_of(module)
    ]


def calls(*given: Any, **how: Any) -> list[Called]:
    """The library calls that a convolution becomes."""
    return formed(traced(*given, **how))


def test_a_cpu_has_the_model_s_forms() -> None:
    assert "lamina-convolution-forms" not in pipeline("linalg", "graph", target="cpu")
    assert "lamina-convolution-forms" in pipeline("linalg", "graph", target=TARGET)


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
    result = F.conv2d(*(torch.empty(s, device="meta") for s in (x, w)), None, stride, padding)
    assert calls(x, w, stride=stride, padding=padding) == [Called(FORWARD, [image, weight], [tuple(result.shape)])]


@pytest.mark.parametrize(("x", "w", "stride", "padding", "image", "weight"), STEMS)
def test_the_plan_of_few_channels(x: Shape, w: Shape, stride: int, padding: int, image: Shape, weight: Shape) -> None:
    """One Lamina kernel lays out the image, and the same one or another lays out the weight, as cuDNN needs them."""
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
    """torch treats strides that fit both layouts as channels first, and copies images."""
    program = planned(traced(x, w, bias=False))
    (call,) = (step for step in program.steps if isinstance(step, Call))
    for ref in (a for a in call.args if isinstance(a, Ref)):
        assert suggest_memory_format(torch.empty_strided(ref.shape, ref.strides)) is torch.channels_last


def evaluated(make: Callable[..., Any], *arrays: np.ndarray) -> list[Tensor]:
    """The values of the tensors that a function emits for f64 arguments."""
    types = ", ".join(f"%{i}: tensor<{'x'.join(map(str, a.shape))}xf64>" for i, a in enumerate(arrays))
    with context(), ir.Location.unknown():
        module = ir.Module.parse(f"func.func @main({types}) {{ return }}")
        (block,) = module.body.operations[0].regions[0].blocks
        with ir.InsertionPoint.at_block_terminator(block):
            made = make(*block.arguments)
        known = dict(zip(block.arguments, arrays, strict=True))
        for op in [o.operation for o in block.operations][:-1]:
            known.update(zip(op.results, evaluate_op(op, [known[v] for v in op.operands], known.__getitem__), strict=True))
        return [torch.from_numpy(np.ascontiguousarray(known[v])) for v in made]


KERNELS = [(3, 3), (7, 7), (3, 4), (5, 8), (2, 6), (1, 2)]


@pytest.mark.parametrize(("kernel", "size", "channels"), pairwise(KERNELS, [(16, 16), (17, 15), (15, 18), (9, 8)], [1, 3, 4]))
def test_blocks_of_pixels(channels: int, size: Shape, kernel: Shape) -> None:
    """All sums of these numbers are exact, so that a misplaced zero is found in any order of addition."""
    torch.manual_seed(0)
    x, w = (torch.randint(-8, 9, s).double() for s in ((2, channels, *size), (3, channels, *kernel)))
    for padding in itertools.product(*(range(k + 1) for k in kernel)):
        want = F.conv2d(x, w, stride=2, padding=padding)
        image, weight = evaluated(lambda x, w, p=padding, s=want.shape[2:]: space_to_depth(x, w, p, s), x.numpy(), w.numpy())
        assert image.shape[1] == weight.shape[1] == 16
        assert torch.equal(F.conv2d(image, weight), want)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("channels", "size", "kernel"), [(3, (32, 48), (16, 16)), (32, (9, 8), (2, 2)), (1, (30, 31), (3, 4))])
def test_patches_are_a_product(channels: int, size: Shape, kernel: Shape, bias: bool) -> None:
    rows, inner = 2 * (size[0] // kernel[0]) * (size[1] // kernel[1]), channels * kernel[0] * kernel[1]
    factors = [(rows, inner), (inner, 24)]
    made = Called(ADDMM, [(24,), *factors], [(rows, 24)]) if bias else Called(MM, factors, [(rows, 24)])
    assert calls((2, channels, *size), (24, channels, *kernel), stride=kernel, bias=bias) == [made]


@pytest.mark.parametrize("bias", [False, True])
def test_a_convolution_of_pixels_is_a_product(bias: bool) -> None:
    (call,) = calls((64, 24, 1, 1), (72, 24, 1, 1), torch.float32, bias=bias, stride=(2, 1))
    assert call == Called(ADDMM if bias else MM, [*[(72,)] * bias, (64, 24), (24, 72)], [(64, 72)])


def test_a_convolution_of_rows_is_one_of_images() -> None:
    assert calls((2, 8, 13), (16, 4, 3), groups=2) == [Called(FORWARD, [(2, 8, 1, 13), (16, 4, 1, 3)], [(2, 16, 1, 11)])]


@pytest.mark.parametrize(
    ("x", "w", "dtype", "how"),
    [
        ((2, 3, 32, 32), (16, 3, 7, 7), torch.float32, {"stride": 2}),
        ((2, 3, 32, 32), (16, 3, 4, 4), torch.float32, {"stride": 4}),
        ((2, 6, 32, 32), (6, 1, 3, 3), BF16, {"groups": 6}),
        ((2, 16, 32, 32), (32, 16, 1, 1), BF16, {}),
        ((2, 16, 32, 32), (32, 16, 2, 2), BF16, {"stride": 2, "padding": 1}),
        ((2, 16, 32, 32), (32, 16, 2, 2), BF16, {"stride": 2, "dilation": 2}),
        ((2, 16, 32, 32), (32, 16, 2, 2), BF16, {"stride": (2, 1)}),
        ((2, 3, 32, 32), (16, 3, 1, 1), BF16, {"stride": 2}),  # kernels of less than 3x3 pixels
        ((2, 3, 32, 32), (16, 3, 2, 2), BF16, {"stride": 2, "padding": 1}),
        ((2, 3, 32, 32), (64, 3, 1, 5), BF16, {}),
        ((2, 8, 32, 32), (64, 8, 3, 3), BF16, {"stride": 2}),
        ((2, 3, 32, 32), (16, 3, 3, 3), BF16, {"stride": 1}),  # the copy would take longer than it saves
        ((2, 3, 32, 32), (16, 3, 3, 3), BF16, {"stride": 2, "dilation": 2}),
        ((64, 24, 1, 1), (72, 24, 1, 1), BF16, {"padding": 1}),
        ((64, 24, 1, 1), (72, 12, 1, 1), BF16, {"groups": 2}),
        ((64, 24, 1, 2), (72, 24, 1, 1), BF16, {}),
        ((64, 24, 1, 1), (72, 24, 3, 3), BF16, {"padding": 1}),
        ((64, 24, 5), (72, 24, 3), torch.float64, {}),
    ],
)
def test_what_stays(x: Shape, w: Shape, dtype: torch.dtype, how: dict[str, Any]) -> None:
    """The library's call stays, except that a kernel adds the bias."""
    (call,) = calls(x, w, dtype, **how)
    assert call.callee == FORWARD and call.operands == [x, w]


def simulated(fn: Callable[..., Any], *inputs: Tensor) -> tuple[list[Tensor], list[str]]:
    """The results of a program for a GPU, and the calls in it."""
    module, program = tiled(fn, inputs)
    distribute(module)
    return Simulated(module, program)(*inputs), [s.callee for s in program.steps if isinstance(s, Call)]


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
    inputs = [image, torch.randn(w).to(BF16), *([torch.randn(w[0]).to(BF16)] if bias else [])]

    def fn(x: Tensor, *rest: Tensor) -> Tensor:
        return F.conv2d(x, *rest, **{n: v if len(v) == 2 else v * 2 for n, v in how.items()})

    (got,), made = simulated(fn, *inputs)
    assert made != [FORWARD] or calls_differ(x, w, how)
    exact, eager = fn(*(t.double() for t in inputs)), fn(*inputs)
    torch.testing.assert_close(got.double(), exact, rtol=1e-2, atol=5e-2)
    assert got.stride() == eager.stride() and got.is_contiguous(memory_format=suggest_memory_format(image))


def calls_differ(x: Shape, w: Shape, how: dict[str, list[int]]) -> bool:
    (call,) = calls(x, w, bias=False, **{n: tuple(v) * (2 // len(v)) for n, v in how.items()})
    return call.operands != [x, w]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, BF16])
def test_numbers_of_pixels(dtype: torch.dtype, bias: bool) -> None:
    inputs = [torch.randn(shape).to(dtype) for shape in ((64, 24, 1, 1), (72, 24, 1, 1), *[(72,)] * bias)]
    fn = lambda *given: F.conv2d(*given, stride=(2, 1))  # noqa: E731
    (got,), made = simulated(fn, *inputs)
    assert made in ([MM], [ADDMM])
    bound = 1e-5 if dtype is torch.float32 else 2e-2
    torch.testing.assert_close(got.double(), fn(*(t.double() for t in inputs)), rtol=bound, atol=5 * bound)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_a_bias_is_added_by_a_kernel(dims: int) -> None:
    inputs = torch.randn(2, 4, *[5] * dims), torch.randn(6, 2, *[3] * dims), torch.randn(6)

    def fn(*given: Tensor) -> Tensor:
        convolve: Any = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
        return convolve(*given, padding=1, groups=2)

    (got,), made = simulated(fn, *inputs)
    assert made == [FORWARD] and got.stride() == fn(*inputs).stride()
    torch.testing.assert_close(got.double(), fn(*(t.double() for t in inputs)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mask", [[True, True, True], [False, True, True], [True, False, False], [False, False, True]])
@pytest.mark.parametrize("sizes", [((2, 3, 9, 7), (4, 3, 3, 3)), ((2, 3, 9), (4, 3, 3)), ((2, 3, 5, 6, 7), (4, 3, 2, 2, 2))])
@pytest.mark.parametrize("dtype", [torch.float64, BF16])
def test_gradients(mask: list[bool], sizes: tuple[Shape, Shape], dtype: torch.dtype) -> None:
    """The bias's gradient is a sum in a kernel; gradients of 1-D convolutions of half types are those of images with one row."""
    shape, kernel = sizes
    x, weight = torch.randn(shape, dtype=dtype), torch.randn(kernel, dtype=dtype)
    how = [[2] * (x.dim() - 2), [1] * (x.dim() - 2), [1] * (x.dim() - 2), False, [0] * (x.dim() - 2), 1]
    grad = torch.randn_like(torch.ops.aten.convolution.default(x, weight, None, *how))

    def fn(*given: Tensor) -> list[Tensor]:
        made = torch.ops.aten.convolution_backward.default(*given, [4], *how, mask)
        return [g for g, wanted in zip(made, mask, strict=True) if wanted]  # eager's library may compute others, too

    found, made = simulated(fn, grad, x, weight)
    assert made == [BACKWARD] * (mask[0] or mask[1])
    exact, eager = fn(*(t.double() for t in (grad, x, weight))), fn(grad, x, weight)
    assert [g.stride() for g in found] == [g.stride() for g in eager]
    bound = {"rtol": 1e-9, "atol": 1e-9} if dtype == torch.float64 else {"rtol": 2e-2, "atol": 0.2}
    for mine, right in zip(found, exact, strict=True):
        torch.testing.assert_close(mine.double(), right, **bound)


WEIGHTS: dict[str, tuple[Shape, Shape, dict[str, int], bool]] = {
    "signals": ((3, 8, 137), (8, 1, 4), {"padding": 3}, True),
    "dilated signals": ((2, 12, 60), (12, 1, 3), {"dilation": 4}, True),
    "images": ((2, 16, 9, 7), (16, 1, 2, 2), {"padding": 1}, True),
    "wide windows": ((1, 7, 5, 130), (7, 1, 1, 4), {"padding": 2, "dilation": 2}, True),
    "too many sums": ((2, 16, 9, 7), (16, 1, 3, 3), {"padding": 1}, False),
    "strides": ((2, 8, 33), (8, 1, 4), {"stride": 2}, False),
    "large windows": ((2, 8, 33), (8, 1, 31), {"padding": 15}, False),
    "two features a channel": ((2, 8, 33), (16, 1, 4), {}, False),
}


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, BF16])
def test_weights_of_depthwise_convolutions(name: str, last: bool, dtype: torch.dtype) -> None:
    """Small weights' gradients are sums of products, several of which share a kernel."""
    shape, kernel, numbers, sums = WEIGHTS[name]
    x, weight = torch.randn(shape, dtype=dtype), torch.randn(kernel, dtype=dtype)
    x = x.transpose(1, -1).contiguous().transpose(1, -1) if last else x
    each = [[numbers.get(n, default)] * (x.dim() - 2) for n, default in (("stride", 1), ("padding", 0), ("dilation", 1))]
    how = [*each, False, [0] * (x.dim() - 2), shape[1]]
    # in f32: oneDNN does not return from large windows of f16 on some CPUs
    grad = torch.randn_like(torch.ops.aten.convolution.default(x.float(), weight.float(), None, *how)).to(dtype)

    def fn(*given: Tensor) -> list[Tensor]:
        return list(torch.ops.aten.convolution_backward.default(*given, [kernel[0]], *how, [False, True, True])[1:])

    found, made = simulated(fn, grad, x, weight)
    assert made == [BACKWARD] * (not sums)
    exact, eager = fn(*(t.double() for t in (grad, x, weight))), fn(grad, x, weight)
    assert [g.stride() for g in found] == [g.stride() for g in eager]
    for mine, right in zip(found, exact, strict=True):
        torch.testing.assert_close(mine.double(), right, rtol=2e-2, atol=2e-2)
