"""Tests convolutions of images of symbolic sizes as Lamina's kernels: in strips and as products, in the simulators against
float64."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from sized_programs import OPTIONS, compiled, launches, not_compiled
from torch import Tensor, nn
from watched import compiled_programs, steps_of

from lamina.core.program import Call, Launch, Program, Ref
from lamina.passes.families.choice import Choice
from lamina.passes.families.gemm.family import ProductProblem
from lamina.schedules.contraction import GemmConfig

__all__ = ["launches", "not_compiled"]
pytestmark = pytest.mark.usefixtures("channels_last")
BF16, LAST = torch.bfloat16, torch.channels_last


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(0)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """The programs that are compiled."""
    return compiled_programs(monkeypatch)


def images(*shape: int) -> Tensor:
    return torch.randn(shape).to(BF16).contiguous(memory_format=LAST)


def depthwise(channels: int, kernel: int | tuple[int, int], stride: int = 1, **how: Any) -> nn.Conv2d:
    sizes = (kernel, kernel) if isinstance(kernel, int) else kernel
    how.setdefault("padding", tuple(k // 2 for k in sizes))
    return nn.Conv2d(channels, channels, sizes, stride, groups=channels, **how)


class Inverted(nn.Module):
    """What MobileNet does between two products."""

    def __init__(self, channels: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv, self.norm = depthwise(channels, kernel, stride, bias=False), nn.BatchNorm2d(channels)
        nn.init.normal_(self.norm.running_mean)
        nn.init.uniform_(self.norm.running_var, 0.5, 2.0)
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        y = nn.functional.hardswish(self.norm(self.conv(torch.relu(x))))
        return y + x if self.stride == 1 else y


def agrees(model: nn.Module, run: Callable[..., Any], x: Tensor) -> None:
    with torch.no_grad():
        got, eager, want = run(x), model(x), copy.deepcopy(model).double()(x.double())
    assert got.shape == eager.shape and got.dtype == eager.dtype and got.stride() == eager.stride()
    assert (got.double() - want).norm() <= 1.05 * (eager.double() - want).norm() + 1e-5 * want.norm()


STRIPS: dict[str, tuple[nn.Module, int]] = {
    "7x7": (depthwise(32, 7), 32),
    "stride": (depthwise(24, 3, 2, bias=False), 24),
    "no padding": (depthwise(16, 3, padding=0), 16),
    "no padding, stride": (depthwise(8, 3, 2, padding=0), 8),
    "much padding": (depthwise(20, 3, padding=3), 20),
    "3x5": (depthwise(40, (3, 5)), 40),
    "residual": (Inverted(48, 3, 1), 48),
    "norm": (Inverted(16, 5, 2), 16),
}
SIZES = ((2, 9, 10), (3, 8, 8), (4, 5, 17), (5, 6, 5), (7, 11, 29))


@pytest.mark.filterwarnings("error")  # such as that it is compiled per size
@pytest.mark.parametrize("name", STRIPS)
@pytest.mark.parametrize("pixels", [True, False])
def test_strips(name: str, pixels: bool, launches: list[Launch], programs: list[Program]) -> None:
    """Height and width in pixels are symbolic, too."""
    model, channels = STRIPS[name]
    model = model.eval().to(BF16).to(memory_format=LAST)
    run = compiled(model) if pixels else torch.compile(model, backend="lamina", options=OPTIONS)
    for n, h, w in SIZES:
        x = images(n, channels, h, w) if pixels else images(n, channels, 6, 13)
        if not pixels:
            torch._dynamo.mark_dynamic(x, 0)
        agrees(model, run, x)
    assert not [s for s in steps_of(programs) if isinstance(s, Call)]
    assert len({s.name for s in steps_of(programs) if isinstance(s, Launch)}) <= 3  # each perhaps by kernels for ranges of sizes


class Layer(nn.Module):
    """A convolution between a pointwise op and what its kernel computes on its sums."""

    def __init__(self, channels: int, features: int, kernel: int, after: Callable[[Tensor, Tensor], Tensor], **how: Any) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, features, kernel, **how), nn.BatchNorm2d(features)
        nn.init.normal_(self.norm.running_mean)
        nn.init.uniform_(self.norm.running_var, 0.5, 2.0)
        self.after = after

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.norm(self.conv(x)), x)


PRODUCTS: dict[str, Callable[[], nn.Module]] = {
    "3x3": lambda: Layer(32, 24, 3, lambda y, x: y.relu(), padding=1, bias=False),
    "residual": lambda: Layer(32, 32, 3, lambda y, x: (y + x).relu(), padding=1),
    "stride": lambda: Layer(32, 40, 3, lambda y, x: y.sigmoid(), padding=1, stride=2),
    "no padding": lambda: Layer(32, 16, 2, lambda y, x: y.sigmoid()),
    "dilation": lambda: Layer(32, 32, 3, lambda y, x: y.sigmoid(), padding=2, dilation=2),
    "few channels": lambda: Layer(32, 32, 3, lambda y, x: y.sigmoid(), padding=1, groups=2),
    "1x1": lambda: Layer(32, 48, 1, lambda y, x: y.sigmoid()),
    "1x1, stride": lambda: Layer(32, 48, 1, lambda y, x: y.sigmoid(), stride=2),
    "gate": lambda: Layer(32, 32, 3, lambda y, x: y * x.float().mean((2, 3), keepdim=True).to(x.dtype), padding=1),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.usefixtures("not_compiled")
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("pixels", [True, False])
def test_products(name: str, pixels: bool, launches: list[Launch], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProductProblem, "default", lambda self, gpu: Choice(GemmConfig(64, 32, 32, 4, 2)))
    model = PRODUCTS[name]().eval().to(BF16).to(memory_format=LAST)
    run = compiled(model) if pixels else torch.compile(model, backend="lamina", options=OPTIONS)
    for n, h, w in ((2, 9, 10), (3, 8, 8), (5, 5, 17)):
        x = images(n, 32, h, w) if pixels else images(n, 32, 6, 11)
        if not pixels:
            torch._dynamo.mark_dynamic(x, 0)
        agrees(model, run, x)
    assert len(launches) == 3


STEMS: dict[str, Callable[[], nn.Module]] = {
    "few channels": lambda: nn.Conv2d(3, 16, 7, 2, 3),
    "few channels, even": lambda: nn.Conv2d(3, 16, 4, 2, bias=False),
    "zeros": lambda: nn.Conv2d(3, 128, 3, 1, 1),
    "patches": lambda: nn.Conv2d(3, 16, 4, 4),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.usefixtures("not_compiled")
@pytest.mark.parametrize("name", STEMS)
def test_stems(name: str, launches: list[Launch], programs: list[Program]) -> None:
    """One program handles 16 channels, or patches as rows, at all sizes, including the remainder of an image."""
    model = nn.Sequential(STEMS[name](), nn.Hardswish()).eval().to(BF16).to(memory_format=LAST)
    run = compiled(model)
    for n, h, w in ((2, 20, 24), (3, 21, 27), (2, 23, 22)):
        agrees(model, run, images(n, 3, h, w))
    (call,) = (s for s in steps_of(programs) if isinstance(s, Call))
    inner = [a.shape[1] for a in call.args if isinstance(a, Ref) and len(a.shape) > 1]
    assert inner == ([48, 16] if name == "patches" else [16, 16]) and not launches


@pytest.mark.filterwarnings("error")  # such as that it is compiled per size
def test_norm_and_relu_of_a_library_s_convolution(programs: list[Program], monkeypatch: pytest.MonkeyPatch) -> None:
    """cuDNN's call computes both, as it does with known sizes."""
    torch._dynamo.reset()
    model = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
    model = model.eval().to(BF16).to(memory_format=LAST)
    with torch.no_grad():
        compiled(model)(images(2, 64, 9, 10))
    assert [s.callee for s in steps_of(programs) if isinstance(s, Call)] == ["aten.cudnn_convolution_relu.default"]
