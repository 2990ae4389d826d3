"""Compares depthwise convolutions as Lamina kernels, which compute strips of columns, with float64 in the simulator."""

import pytest
import torch
from gpu_programs import errors
from torch import Tensor, nn

from lamina.core.program import Call, Launch

pytestmark = pytest.mark.usefixtures("channels_last")

BF16, LAST = torch.bfloat16, torch.channels_last
torch.manual_seed(0)  # of the weights of the models below


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(0)


def images(*shape: int, dtype: torch.dtype = BF16) -> Tensor:
    return torch.randn(shape).to(dtype).contiguous(memory_format=LAST)


def depthwise(channels: int, kernel: int | tuple[int, int], stride: int = 1, **how: object) -> nn.Conv2d:
    sizes = (kernel, kernel) if isinstance(kernel, int) else kernel
    how.setdefault("padding", tuple(k // 2 for k in sizes))
    return nn.Conv2d(channels, channels, sizes, stride, groups=channels, **how)  # type: ignore[arg-type]


CASES = [
    (depthwise(96, 7), (1, 96, 10, 8)),  # ConvNeXt
    (depthwise(64, 7), (2, 64, 7, 7)),  # one strip of a row, whose windows all reach over the edge
    (depthwise(32, 7), (1, 32, 3, 4)),  # windows larger than the image
    (depthwise(24, 3, 2, bias=False), (2, 24, 11, 9)),
    (depthwise(72, 5, 2), (1, 72, 14, 14)),
    (depthwise(40, (3, 5)), (1, 40, 6, 13)),
    (depthwise(16, 3, padding=0), (2, 16, 9, 10)),
    (depthwise(184, 5, padding=1), (1, 184, 8, 8)),
    (depthwise(8, 3, 2, padding=0), (3, 8, 12, 12)),  # the image's last row and column are in no window
    (depthwise(20, 3, padding=3), (1, 20, 5, 6)),
    (depthwise(32, 3), (2, 32, 3, 17)),  # two strips of 9 columns share one
    (depthwise(32, 5, 2), (1, 32, 5, 38)),
    (depthwise(16, 3, padding=0), (1, 16, 3, 25)),
    (depthwise(32, 3, dilation=2), (2, 32, 8, 9)),
    (depthwise(24, 5, dilation=(2, 3)), (1, 24, 7, 16)),
    (depthwise(16, 3, 2, dilation=2), (1, 16, 9, 12)),
]


def most(eager: float, dtype: torch.dtype) -> float:
    """Returns the largest error allowed: sums in f32 are in another order, those of half types are rounded once by both."""
    return (2 if dtype is torch.float32 else 1.05) * eager


@pytest.mark.parametrize("dtype", [BF16, torch.float16, torch.float32])
@pytest.mark.parametrize(("model", "shape"), CASES)
def test_convolution(model: nn.Module, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    mine, eager, program = errors(model.to(dtype).to(memory_format=LAST), images(*shape, dtype=dtype))
    assert mine <= most(eager, dtype)
    assert not [s for s in program.program.steps if isinstance(s, Call)]
    assert len([s for s in program.program.steps if isinstance(s, Launch)]) == 2  # the weight, in order, and the sums


class Inverted(nn.Module):
    """The ops between two products in MobileNet: norms and activations around a depthwise convolution, and a residual."""

    def __init__(self, channels: int, kernel: int, stride: int, activation: nn.Module) -> None:
        super().__init__()
        self.conv, self.norm, self.activation = (
            depthwise(channels, kernel, stride, bias=False),
            nn.BatchNorm2d(channels),
            activation,
        )
        nn.init.normal_(self.norm.running_mean)
        nn.init.uniform_(self.norm.running_var, 0.5, 2.0)
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        y = self.activation(self.norm(self.conv(torch.relu(x))))
        return y + x if self.stride == 1 else y


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (Inverted(48, 3, 1, nn.Hardswish()), (2, 48, 8, 10)),
        (Inverted(120, 5, 2, nn.ReLU()), (1, 120, 10, 16)),
        (Inverted(16, 3, 1, nn.Identity()), (2, 16, 4, 5)),
    ],
)
def test_what_follows_is_in_the_strips(model: nn.Module, shape: tuple[int, ...]) -> None:
    """Norm, activation and residual are computed on the sums; the ops before share a launch with the weight's layout."""
    mine, eager, program = errors(model.eval().to(BF16).to(memory_format=LAST), images(*shape))
    assert mine <= 1.05 * eager
    assert len([s for s in program.program.steps if isinstance(s, Launch)]) == 2
    assert not [s for s in program.program.steps if isinstance(s, Call)]


class Block(nn.Module):
    """ConvNeXt's block, which reads the result across its channels."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = depthwise(64, 7), nn.LayerNorm(64)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x).permute(0, 2, 3, 1))


@pytest.mark.parametrize("layout", [LAST, torch.contiguous_format])
def test_norm_over_channels(layout: torch.memory_format) -> None:
    """An image without channels last is copied once, next to the weight."""
    mine, eager, program = errors(Block().to(BF16), images(2, 64, 6, 8).contiguous(memory_format=layout))
    assert mine <= 1.05 * eager
    assert len([s for s in program.program.steps if isinstance(s, Launch)]) == 3
    assert not [s for s in program.program.steps if isinstance(s, Call)]


@pytest.mark.parametrize(
    ("model", "shape", "dtype"),
    [
        (depthwise(32, 3), (2, 32, 8, 3), BF16),  # rows of fewer columns than strips have
        (
            depthwise(32, 3, padding=12, dilation=12),
            (2, 32, 28, 28),
            BF16,
        ),  # windows that are spread too far for a thread's registers
        (depthwise(32, 3, 3), (2, 32, 8, 24), BF16),
        (depthwise(32, 3), (2, 32, 8, 8), torch.float64),
        (nn.Conv2d(32, 64, 3, groups=32), (2, 32, 8, 10), BF16),
        (nn.Conv2d(32, 32, 3, groups=16), (2, 32, 8, 10), BF16),
        (nn.ConvTranspose2d(32, 32, 3, groups=32), (2, 32, 8, 8), BF16),
    ],
)
def test_other_convolutions_stay_calls(model: nn.Module, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    mine, eager, program = errors(model.to(dtype).to(memory_format=LAST), images(*shape, dtype=dtype))
    assert mine <= 2 * eager + 1e-6  # a bias is added after the library has rounded
    assert [s.callee for s in program.program.steps if isinstance(s, Call)] == ["aten.convolution.default"]


def test_kernels_are_shared() -> None:
    """Equal layers share a kernel, whatever their weights."""
    model = nn.Sequential(*(nn.Sequential(depthwise(32, 3), nn.Flatten(), nn.Unflatten(1, (32, 4, 8))) for _ in range(3)))
    _, _, program = errors(model.to(BF16).to(memory_format=LAST), images(1, 32, 4, 8))
    assert len({s.kernel for s in program.program.steps if isinstance(s, Launch) and "convolution" in s.kernel}) <= 2


class Tokens(nn.Module):
    """A depthwise convolution of a sequence's image (SegFormer's MLP), with the ops after it on the sequence."""

    def __init__(self, channels: int, sizes: tuple[int, int]) -> None:
        super().__init__()
        self.sizes, self.convolution = sizes, depthwise(channels, 3)

    def forward(self, x: Tensor) -> Tensor:
        image = x.transpose(1, 2).unflatten(2, self.sizes)
        return nn.functional.gelu(self.convolution(image).flatten(2).transpose(1, 2)) + x


@pytest.mark.parametrize(("channels", "sizes"), [(32, (6, 10)), (32, (4, 8)), (16, (16, 16))])
def test_rows_of_channels_are_in_the_strips(channels: int, sizes: tuple[int, int]) -> None:
    mine, eager, program = errors(Tokens(channels, sizes).to(BF16), torch.randn(2, sizes[0] * sizes[1], channels).to(BF16))
    assert mine <= 1.05 * eager
    assert len([s for s in program.program.steps if isinstance(s, Launch)]) == len(program.program.steps) == 2


class Gradient(nn.Module):
    """The gradient of a depthwise convolution's image for stride 1, with given weight and image."""

    def __init__(self, x: Tensor, size: tuple[int, ...], padding: tuple[int, ...]) -> None:
        super().__init__()
        self.weight, self.padding = nn.Parameter(torch.randn(x.shape[1], 1, *size)), padding
        self.register_buffer("x", x)

    def forward(self, grad: Tensor) -> Tensor:
        ones, zeros = [1] * len(self.padding), [0] * len(self.padding)
        found = torch.ops.aten.convolution_backward.default(
            grad, self.x, self.weight, None, ones, list(self.padding), ones, False, zeros, grad.shape[1], [True, False, False]
        )
        return found[0]


@pytest.mark.parametrize(
    ("size", "padding", "dtype"),
    [
        *(
            (*case, BF16)
            for case in [((3, 3), (1, 1)), ((7, 7), (3, 3)), ((5, 3), (0, 1)), ((2, 4), (1, 3)), ((4,), (3,)), ((9,), (4,))]
        ),
        ((3, 3), (1, 1), torch.float32),
        ((5, 3), (0, 1), torch.float32),
        ((4,), (3,), torch.float32),
    ],
)
def test_gradients_of_images(size: tuple[int, ...], padding: tuple[int, ...], dtype: torch.dtype) -> None:
    """They are convolutions with the reversed window."""
    shape = (9, 14)[-len(size) :]
    out = [n + 2 * p - k + 1 for n, p, k in zip(shape, padding, size, strict=True)]
    grad, x = (torch.randn(2, 32, *sizes).to(dtype) for sizes in (out, shape))
    if len(size) == 2:
        grad, x = (t.contiguous(memory_format=LAST) for t in (grad, x))
    mine, eager, program = errors(Gradient(x, size, padding).to(dtype), grad)
    assert mine <= most(eager, dtype)
    assert not [s for s in program.program.steps if isinstance(s, Call)]


@pytest.mark.parametrize(("channels", "length", "size", "padding"), [(32, 50, 4, 3), (64, 33, 31, 15), (24, 17, 3, 1)])
def test_signals(channels: int, length: int, size: int, padding: int) -> None:
    """Convolutions along a sequence, as in Mamba and Conformer."""

    class Signal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv1d(channels, channels, size, padding=padding, groups=channels, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(self.conv(x.transpose(1, 2))).transpose(1, 2)

    mine, eager, program = errors(Signal().to(BF16), torch.randn(2, length, channels).to(BF16))
    assert mine <= 1.05 * eager
    if size == 4:
        assert not [s for s in program.program.steps if isinstance(s, Call)]
