"""Compares convolutions with epilogues, stems and patches on the GPU with eager and float64."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from entry_points import by_dynamo, by_export
from gpu_programs import tiled
from torch import Tensor, nn

import lamina
from lamina.core.program_needs import with_needs
from lamina.core.target import Target
from lamina.runtime.executable import Executable
from lamina.schedules.convolution_cost import SCHEDULES
from lamina.targets.nvvm.backend import NvvmBackend

ENTRY_POINTS = (by_export, by_dynamo)
BF16 = torch.bfloat16
FUSED, PLAIN, ADDMM = "aten.cudnn_convolution_relu.default", "aten.convolution.default", "aten.addmm.default"
LAST, FIRST = torch.channels_last, torch.contiguous_format


class Norm(nn.Module):
    """A convolution, a norm with statistics that are not trivial, and a ReLU."""

    def __init__(self, *sizes: int, **how: Any) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(*sizes, **how), nn.BatchNorm2d(sizes[1])
        nn.init.normal_(self.norm.running_mean)
        nn.init.uniform_(self.norm.running_var, 0.2, 3.0)
        nn.init.uniform_(self.norm.weight, -1.5, 1.5)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.norm(self.conv(x)))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = Norm(3, 64, 7, stride=2, padding=3, bias=False)
        self.body = nn.Sequential(Norm(64, 16, 1, bias=False), Norm(16, 16, 3, padding=1), Norm(16, 64, 1, bias=False))
        self.head = nn.Conv2d(64, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(self.stem(x), 3, 2, 1)
        return self.head(F.relu(self.body(x) + x))


class Patches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 64, 4, 4), nn.LayerNorm(64)
        self.wide, self.down = nn.Conv2d(64, 64, 7, padding=3, groups=64), nn.Conv2d(64, 96, 2, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.stem(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.down(F.gelu(self.wide(x)) + x).flatten(2).transpose(1, 2)


class Depthwise(nn.Module):
    """One filter for each channel, between two products of pixels: MobileNet's with a norm, an activation and a residual."""

    def __init__(self, channels: int, size: int, stride: int, activation: nn.Module) -> None:
        super().__init__()
        self.wide, self.norm, self.activation = nn.Conv2d(24, channels, 1), nn.BatchNorm2d(channels), activation
        self.each = nn.Conv2d(channels, channels, size, stride, size // 2, groups=channels, bias=False)
        nn.init.normal_(self.norm.running_mean)
        nn.init.uniform_(self.norm.running_var, 0.2, 3.0)
        self.narrow = nn.Conv2d(channels, 24, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.narrow(self.activation(self.norm(self.each(F.gelu(self.wide(x))))))
        return y + x if y.shape == x.shape else y


class Next(nn.Module):
    """ConvNeXt's block."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.each = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm, self.linear = nn.LayerNorm(channels), nn.Linear(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.norm(self.each(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2) + x


def biased() -> nn.Module:
    layers = nn.Conv2d(32, 40, 3, stride=2, dilation=(1, 2)), nn.ReLU(), nn.Conv2d(40, 24, (1, 3), padding=(0, 1)), nn.ReLU()
    return nn.Sequential(*layers, nn.Conv2d(24, 8, 1))


class Stem(nn.Module):
    """Of few channels, before something that a library does."""

    def __init__(self, *sizes: int, **how: int) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv2d(*sizes, **how), nn.Conv2d(sizes[1], 8, 1)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.relu(self.stem(x)))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], list[str]]] = {
    "residual": (Residual, (4, 3, 65, 63), [PLAIN, FUSED, FUSED, PLAIN, PLAIN]),
    "patches": (Patches, (2, 3, 64, 72), [ADDMM, ADDMM]),
    "biased": (biased, (3, 32, 21, 18), [FUSED, FUSED, PLAIN]),
    "stem 7x7": (lambda: Stem(3, 64, 7, stride=2, padding=3), (2, 3, 225, 223), [FUSED, PLAIN]),
    "stem 3x3": (lambda: Stem(3, 16, 3, stride=2, padding=1), (2, 3, 65, 63), [FUSED, PLAIN]),
    "stem of one image": (lambda: Stem(3, 16, 3, stride=2, padding=1), (1, 3, 64, 63), [FUSED, PLAIN]),
    "stem 4x4": (lambda: Stem(4, 32, 4, stride=2), (3, 4, 31, 32), [FUSED, PLAIN]),
    "stem of stride 1": (lambda: Stem(3, 128, 3, padding=1), (2, 3, 33, 31), [FUSED, PLAIN]),
    "depthwise 3x3": (lambda: Depthwise(72, 3, 1, nn.ReLU()), (2, 24, 20, 28), [PLAIN, PLAIN]),
    "depthwise 5x5": (lambda: Depthwise(120, 5, 2, nn.Hardswish()), (3, 24, 15, 23), [PLAIN, PLAIN]),
    "depthwise of many channels": (lambda: Depthwise(960, 5, 1, nn.Hardswish()), (1, 24, 7, 7), [PLAIN, PLAIN]),
    "depthwise, strips that share columns": (lambda: Depthwise(64, 3, 1, nn.ReLU()), (2, 24, 9, 17), [PLAIN, PLAIN]),
    "depthwise of few columns": (lambda: Depthwise(64, 3, 1, nn.ReLU()), (2, 24, 9, 3), [PLAIN, PLAIN, PLAIN]),
    "ConvNeXt, 14 columns": (lambda: Next(96), (2, 96, 9, 28), [ADDMM]),
    "ConvNeXt, 7 columns": (lambda: Next(768), (2, 768, 7, 7), [ADDMM]),
}


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
@pytest.mark.parametrize("memory", [FIRST, LAST])
@pytest.mark.parametrize("dtype", [BF16, torch.float16])
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, dtype: torch.dtype, memory: torch.memory_format, entry_point: Any) -> None:
    make, shape, callees = MODELS[name]
    model = make().eval().cuda().to(dtype).to(memory_format=memory)
    x = torch.randn(shape, device="cuda").to(dtype).contiguous(memory_format=memory)
    with torch.no_grad():
        exact, eager = copy.deepcopy(model).double()(x.double()), model(x)
        run = entry_point(model, (x,))
        for _ in range(3):
            mine = run(x)
            assert mine.stride() == eager.stride()
            assert (mine - exact).norm() <= 1.5 * (eager - exact).norm()
            assert (mine - exact).abs().max() <= 3 * (eager - exact).abs().max()
        found = [e.callee for e in lamina.explain(model, (x,)).externals]
    if dtype is BF16 or name != "residual":  # weights of f16 are not scaled
        assert found == callees


@pytest.mark.parametrize("dtype", [BF16, torch.float32])
@pytest.mark.parametrize(("size", "stride", "dilation"), [(3, 1, 1), (5, 2, 1), (7, 1, 1), (3, 1, 2), (5, 1, (2, 3)), (3, 2, 2)])
def test_depthwise(size: int, stride: int, dilation: Any, dtype: torch.dtype) -> None:
    """Values, and gradients of the image."""
    convolution = nn.Conv2d(72, 72, size, stride, size // 2, dilation, groups=72).cuda().to(dtype).to(memory_format=LAST)
    x = torch.randn(3, 72, 17, 28, device="cuda").to(dtype).contiguous(memory_format=LAST)

    def computed(run: Any, convolution: nn.Module, x: Tensor) -> list[Tensor]:
        given = x.detach().requires_grad_()
        result = run(given)
        return [
            result.double(),
            *(g.double() for g in torch.autograd.grad(result.square().sum(), [given, *convolution.parameters()])),
        ]

    twice = copy.deepcopy(convolution).double()
    exact, eager = computed(twice, twice, x.double()), computed(convolution, convolution, x)
    run = torch.compile(convolution, backend="lamina", fullgraph=True)
    for found, usual, right in zip(computed(run, convolution, x), eager, exact, strict=True):
        assert (found - right).norm() <= 2 * (usual - right).norm() + 1e-6 * right.norm()
    with torch.no_grad():
        assert not lamina.explain(convolution, (x,)).externals


@pytest.mark.parametrize("memory", [FIRST, LAST])
def test_a_result_of_the_graph_with_its_relu(memory: torch.memory_format) -> None:
    model = Norm(16, 32, 3, padding=1).eval().cuda().to(BF16).to(memory_format=memory)
    x = torch.randn(2, 16, 9, 11, device="cuda").to(BF16).contiguous(memory_format=memory)
    with torch.no_grad():
        exact, eager = copy.deepcopy(model).double()(x.double()), model(x)
        for entry_point in ENTRY_POINTS:
            mine = entry_point(model, (x,))(x)
            assert mine.stride() == eager.stride()
            assert (mine - exact).norm() <= 1.5 * (eager - exact).norm()


def test_a_parameters_new_value_is_seen() -> None:
    model = nn.Sequential(Norm(16, 32, 3, bias=False), nn.Conv2d(32, 8, 1)).eval().cuda().to(BF16)
    x = torch.randn(2, 16, 9, 11, device="cuda").to(BF16)
    with torch.no_grad():
        run = by_dynamo(model, (x,))
        run(x)
        model[0].norm.running_var.mul_(4)
        model[0].conv.weight.neg_()
        torch.testing.assert_close(run(x), model(x), rtol=2e-2, atol=2e-2)


def test_what_is_no_number_stays_so() -> None:
    """A ReLU passes NaN and infinity on."""
    model = nn.Sequential(nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Conv2d(32, 8, 1)).eval().cuda().to(BF16)
    x = torch.randn(2, 16, 9, 11, device="cuda").to(BF16)
    x[0, 3, 4, 5] = float("nan")
    with torch.no_grad():
        mine, eager = by_dynamo(model, (x,))(x), model(x)
    assert torch.equal(mine.isnan(), eager.isnan())


OURS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {  # image, weight, how
    "3x3": ((4, 64, 29, 27), (96, 64, 3, 3), {"padding": 1}),
    "1x1": ((3, 64, 15, 17), (96, 64, 1, 1), {}),
    "1x1 stride 2": ((3, 64, 15, 17), (96, 64, 1, 1), {"stride": 2}),
    "7x7 of three channels": ((2, 3, 65, 63), (64, 3, 7, 7), {"stride": (2, 1), "padding": 3}),
    "dilated": ((1, 48, 31, 33), (40, 48, 3, 3), {"padding": 2, "dilation": 2}),
}


IN_PARTS = "triton{m=64 n=64 k=32 warps=4 stages=4 descriptors=0 parts=2}"
PAIRS = [
    *(("3x3", str(c)) for c in SCHEDULES),
    ("3x3", IN_PARTS),
    *((name, str(list(SCHEDULES)[i])) for name in OURS for i in (0, 3)),
]


@pytest.mark.usefixtures("channels_last")
@pytest.mark.parametrize(("name", "schedule"), dict.fromkeys(PAIRS))
def test_products_of_ours(name: str, schedule: str) -> None:
    """Compares with float64, whatever tuning would choose, with a bias, a gate for channels, a residual and an activation."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("schedules here are for sm_90")
    image, weight, how = OURS[name]

    def block(x: Tensor, w: Tensor, b: Tensor, s: Tensor, r: Tensor) -> Tensor:
        return F.silu(F.conv2d(x, w, b, **how) * s + r)

    w = torch.randn(weight, device="cuda") * (weight[1] * weight[2] * weight[3]) ** -0.5
    x, b, s = (torch.randn(n, device="cuda") for n in (image, weight[:1], (image[0], weight[0], 1, 1)))
    r = torch.randn_like(F.conv2d(x, w, b, **how))
    inputs = [t.to(BF16).contiguous(memory_format=LAST) if t.dim() == 4 else t.to(BF16) for t in (x, w, b, s, r)]
    module, program = tiled(block, [t.cpu() for t in inputs], products=schedule)
    artifact = NvvmBackend(Target.parse("nvvm:sm_90a")).compile(module)
    assert artifact.needs, "no kernel of Triton's"
    run = Executable(with_needs(program, artifact.needs), artifact)
    run.load(0)
    (found,), want = run(*inputs), block(*(t.double() for t in inputs))
    assert (found.double() - want).norm() < 5e-3 * want.norm()


def gradients(run: Callable[..., Tensor], model: nn.Module, x: Tensor) -> list[Tensor]:
    model.zero_grad()
    x = x.detach().clone().requires_grad_()
    run(x).square().mean().backward()
    return [x.grad, *(p.grad.clone() for p in model.parameters())]  # type: ignore[list-item,union-attr]


@pytest.mark.parametrize("name", ["patches", "biased", "stem", "depthwise 3x3", "depthwise 5x5", "ConvNeXt, 14 columns"])
def test_training(name: str) -> None:
    def stem() -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 8, 1))

    make, shape = {**{n: m[:2] for n, m in MODELS.items()}, "stem": (stem, (2, 3, 33, 31))}[name]
    model = make().cuda().to(BF16)
    x = torch.randn(shape, device="cuda").to(BF16)
    other = copy.deepcopy(model).double()
    exact = gradients(other, other, x.double())
    eager = gradients(model, model, x)
    mine = gradients(by_dynamo(model, (x,)), model, x)
    for a, b, truth in zip(mine, eager, exact, strict=True):
        assert (a - truth).norm() <= 2 * (b - truth).norm() + 1e-3 * truth.norm()
