"""Compares depthwise convolutions of f32 on a CPU with float64: windows, strides, sizes with partial blocks of columns and rows,
epilogues."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lamina

CASES = [  # channels, height, width, kernel, stride, padding, dilation
    (3, 9, 11, (3, 3), 1, 1, 1),
    (4, 56, 56, (3, 7), 1, (1, 3), 1),
    (2, 13, 70, (7, 1), 1, (3, 0), 1),
    (5, 17, 23, (3, 3), 2, 1, 1),
    (2, 15, 40, (5, 5), (2, 3), (2, 0), 1),
    (2, 12, 31, (3, 3), 1, 2, 2),
    (2, 20, 33, (3, 2), (3, 2), (1, 4), (1, 3)),
    (1, 7, 7, (7, 7), 1, 3, 1),
    (3, 1, 100, (1, 5), 1, (0, 2), 1),
    (2, 4, 300, (2, 2), 2, 0, 1),
    (2, 223, 224, (3, 3), 1, 1, 1),
    (2, 6, 2, (3, 3), 1, 1, 1),
]


def _close(found: Tensor, exact: Tensor, taps: int) -> None:
    scale = exact.abs().max().clamp(min=1.0)
    assert ((found.double() - exact).abs().max() / scale).item() < taps * 6e-8


@pytest.mark.parametrize("case", CASES, ids=str)
def test_depthwise(case: tuple) -> None:
    channels, height, width, kernel, stride, padding, dilation = case
    conv = nn.Conv2d(channels, channels, kernel, stride, padding, dilation, groups=channels)
    x = torch.randn(2, channels, height, width)
    with torch.no_grad():
        compiled = lamina.compile(conv, (x,), options={"cache": False})
        assert "aten.convolution" not in str(lamina.explain(conv, (x,)).externals)
        _close(compiled(x), conv.double()(x.double()), kernel[0] * kernel[1])


class Block(nn.Module):
    """A depthwise convolution, a norm, an activation and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(6, 6, 5, padding=2, groups=6, bias=False)
        self.norm = nn.BatchNorm2d(6).eval()

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        z = F.hardswish(self.norm(self.conv(x))) + y
        return z, z.mean((2, 3))


def test_what_follows() -> None:
    block, x, y = Block(), torch.randn(2, 6, 14, 19), torch.randn(2, 6, 14, 19)
    with torch.no_grad():
        found = lamina.compile(block, (x, y), options={"cache": False})(x, y)
        exact = block.double()(x.double(), y.double())
    for a, b in zip(found, exact, strict=True):
        _close(a, b, 100)


@pytest.mark.parametrize("given", ["sliced", "transposed", "channels last"])
def test_images_that_are_not_row_major(given: str) -> None:
    conv = nn.Conv2d(4, 4, 3, padding=1, groups=4)
    whole = torch.randn(2, 4, 24, 40)
    x = {
        "sliced": whole[:, :, 3:20, 5:30],
        "transposed": whole.transpose(2, 3),
        "channels last": whole.contiguous(memory_format=torch.channels_last),
    }[given]
    with torch.no_grad():
        found = lamina.compile(conv, (x,), options={"cache": False})(x)
        _close(found, conv.double()(x.double()), 9)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize(
    "case", [*CASES, (37, 14, 14, (5, 5), 1, 2, 1), (33, 10, 7, (5, 3), 2, 1, 1), (1, 9, 10, (1, 1), 1, 0, 1)], ids=str
)
def test_gradients(case: tuple, memory_format: torch.memory_format) -> None:
    channels, height, width, kernel, stride, padding, dilation = case
    conv = nn.Conv2d(channels, channels, kernel, stride, padding, dilation, groups=channels)
    x = torch.randn(3, channels, height, width).contiguous(memory_format=memory_format).requires_grad_()
    given = [x, *conv.parameters()]
    compiled = torch.compile(conv, backend="lamina", options={"cache": False})
    y = compiled(x)
    grad = torch.randn_like(y)
    found = torch.autograd.grad(y, given, grad)
    double, wide = copy.deepcopy(conv).double(), x.detach().double().requires_grad_()
    exact = torch.autograd.grad(double(wide), [wide, *double.parameters()], grad.double())
    eager = torch.autograd.grad(conv(x), given, grad)
    for a, b, c in zip(found, exact, eager, strict=True):
        scale = b.abs().max().clamp(min=1.0)
        assert ((a.double() - b).abs().max() / scale).item() < max(2 * ((c.double() - b).abs().max() / scale).item(), 6e-7)


SIGNALS = [  # channels, length, kernel, stride, padding, dilation
    (6, 40, 5, 1, 2, 1),
    (3, 100, 31, 1, 15, 1),  # Conformer
    (6, 43, 4, 1, 3, 1),  # Mamba
    (5, 77, 3, 2, 1, 1),
    (4, 129, 7, 1, 9, 3),
    (1, 50, 9, 1, 0, 1),
    (2, 5, 1, 1, 0, 1),
    (3, 9000, 5, 1, 2, 1),
]


@pytest.mark.parametrize("given", ["contiguous", "transposed", "sliced"])
@pytest.mark.parametrize("case", SIGNALS, ids=str)
def test_signals(case: tuple, given: str) -> None:
    channels, length, kernel, stride, padding, dilation = case
    conv = nn.Conv1d(channels, channels, kernel, stride, padding, dilation, groups=channels)
    base = torch.randn(3, length, channels + 2)
    sources = {"contiguous": base[..., 2:].mT.contiguous(), "transposed": base[..., 2:].contiguous().mT, "sliced": base[..., 2:].mT}
    x = sources[given].requires_grad_()
    inputs = [x, *conv.parameters()]
    y = torch.compile(conv, backend="lamina", options={"cache": False})(x)
    assert "aten.convolution" not in str(lamina.explain(conv, (x.detach(),), show=False).externals)
    grad = torch.randn_like(y)
    found = torch.autograd.grad(y, inputs, grad)
    double, wide = copy.deepcopy(conv).double(), x.detach().double().requires_grad_()
    exact = double(wide)
    _close(y, exact, kernel + 1)
    eager = torch.autograd.grad(conv(x), inputs, grad)
    for a, b, c in zip(found, torch.autograd.grad(exact, [wide, *double.parameters()], grad.double()), eager, strict=True):
        scale = b.abs().max().clamp(min=1.0)
        assert ((a.double() - b).abs().max() / scale).item() < max(2 * ((c.double() - b).abs().max() / scale).item(), 6e-7)
        assert a.stride() == c.stride()


def test_gradients_of_any_number_of_images() -> None:
    conv = nn.Conv2d(4, 4, 5, padding=2, groups=4)
    run = torch.compile(conv, backend="lamina", options={"cache": False, "strict": True})
    for batch in (3, 2, 5):
        x = torch.randn(batch, 4, 12, 17, requires_grad=True)
        torch._dynamo.mark_dynamic(x, 0)
        found = torch.autograd.grad(run(x).square().sum(), [x, *conv.parameters()])
        double, wide = copy.deepcopy(conv).double(), x.detach().double().requires_grad_()
        exact = torch.autograd.grad(double(wide).square().sum(), [wide, *double.parameters()])
        for a, b in zip(found, exact, strict=True):
            _close(a, b, 1000)


def test_gradients_beside_channels_last() -> None:
    """The first convolution is slow with channels first, so all images are saved with channels last."""
    first, last = nn.Conv2d(3, 24, 3, 2, 1), nn.ConvTranspose2d(40, 16, 2, 2)
    model = nn.Sequential(first, nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1, groups=24), nn.SiLU(), nn.Conv2d(24, 40, 1), last)
    x = torch.randn(2, 3, 20, 28, requires_grad=True)
    compiled = torch.compile(model, backend="lamina", options={"cache": False})
    found = torch.autograd.grad(compiled(x).sin().sum(), [x, *model.parameters()])
    double, wide = model.double(), x.detach().double().requires_grad_()
    exact = torch.autograd.grad(double(wide).sin().sum(), [wide, *double.parameters()])
    for a, b in zip(found, exact, strict=True):
        _close(a, b, 1000)
        assert a.stride() == a.contiguous().stride() or 1 in a.shape


@pytest.mark.filterwarnings("error")  # such as that it is compiled per size
def test_any_number_of_images() -> None:
    block = Block().requires_grad_(False)
    run = torch.compile(block, backend="lamina", options={"cache": False, "strict": True})
    for batch in (3, 2, 5):
        x, y = torch.randn(batch, 6, 14, 19), torch.randn(batch, 6, 14, 19)
        torch._dynamo.mark_dynamic(x, 0)
        torch._dynamo.mark_dynamic(y, 0)
        exact = copy.deepcopy(block).double()(x.double(), y.double())
        for a, b in zip(run(x, y), exact, strict=True):
            _close(a, b, 25)
