"""Compares grouped convolutions, convolutions of rows, and convolutions of f32 with float64, as Lamina kernels, whatever tuning
would choose, and as calls of the library."""

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from entry_points import by_dynamo, by_export
from gpu_programs import tiled
from torch import Tensor, nn

from lamina.core.program import Call
from lamina.core.program_needs import with_needs
from lamina.core.target import Target
from lamina.runtime.executable import Executable
from lamina.schedules.convolution_cost import SCHEDULES
from lamina.targets.nvvm.backend import NvvmBackend

pytestmark = pytest.mark.usefixtures("channels_last")

BF16, F16, LAST = torch.bfloat16, torch.float16, torch.channels_last
Shape = tuple[int, ...]

IMAGES: dict[str, tuple[Shape, Shape, dict[str, Any]]] = {  # image, weight, how
    "one group": ((2, 32, 13, 14), (64, 32, 3, 3), {"padding": 1}),
    "4 channels": ((3, 128, 29, 28), (128, 4, 3, 3), {"groups": 32, "padding": 1}),
    "8 channels, stride 2": ((2, 64, 27, 28), (64, 8, 3, 3), {"groups": 8, "padding": 1, "stride": 2}),
    "16 channels": ((2, 64, 13, 14), (64, 16, 3, 3), {"groups": 4, "padding": 1}),
    "32 channels": ((2, 96, 7, 7), (96, 32, 3, 3), {"groups": 3, "padding": 1}),
    "24 channels": ((2, 72, 9, 10), (48, 24, 3, 3), {"groups": 3, "padding": 1}),  # RegNet's
    "a multiplier": ((2, 24, 9, 10), (96, 1, 3, 3), {"groups": 24, "padding": 1}),
    "1x1": ((2, 60, 9, 10), (60, 20, 1, 1), {"groups": 3}),  # ShuffleNet's
    "5 columns of a window": ((2, 32, 9, 8), (32, 4, 2, 5), {"groups": 8, "padding": (1, 2)}),
}
FEW = [c for c in SCHEDULES if c.n <= 32]


ERRORS = {BF16: 5e-3, F16: 1e-3, torch.float32: 2e-3}  # of f32 rounded to tf32


def check(name: str, schedule: str, dtype: torch.dtype = BF16) -> None:
    """With a bias, a gate of channels, an activation and a residual."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("compiled here for sm_90")
    image, weight, how = IMAGES[name]

    def block(x: Tensor, w: Tensor, b: Tensor, s: Tensor, r: Tensor) -> Tensor:
        return F.silu(F.conv2d(x, w, b, **how) * s + r)

    w = torch.randn(weight, device="cuda") * (weight[1] * weight[2] * weight[3]) ** -0.5
    x, b, s = (torch.randn(n, device="cuda") for n in (image, weight[:1], (image[0], weight[0], 1, 1)))
    r = torch.randn_like(F.conv2d(x, w, b, **how))
    inputs = [t.to(dtype).contiguous(memory_format=LAST) if t.dim() == 4 else t.to(dtype) for t in (x, w, b, s, r)]
    module, program = tiled(block, [t.cpu() for t in inputs], products=schedule)
    assert not any(isinstance(step, Call) for step in program.steps), "the library computes it"
    artifact = NvvmBackend(Target.parse("nvvm:sm_90a")).compile(module)
    run = Executable(with_needs(program, artifact.needs), artifact)
    run.load(0)
    (found,), want = run(*inputs), block(*(t.double() for t in inputs))
    assert (found.double() - want).norm() < ERRORS[dtype] * want.norm()


@pytest.mark.parametrize("name", [name for name, (*_, how) in IMAGES.items() if "groups" in how])
def test_strips(name: str) -> None:
    check(name, "direct")


@pytest.mark.parametrize("name", ["4 channels", "32 channels"])
def test_strips_of_f16(name: str) -> None:
    check(name, "direct", F16)


@pytest.mark.parametrize("schedule", [str(c) for c in FEW])
@pytest.mark.parametrize("name", ["16 channels", "32 channels"])
def test_products(name: str, schedule: str) -> None:
    check(name, schedule)


@pytest.mark.parametrize("name", ["24 channels", "1x1"])
def test_odd_products(name: str) -> None:
    check(name, str(FEW[0]))


@pytest.mark.parametrize("name", ["one group", "32 channels"])
def test_products_of_f32(name: str) -> None:
    check(name, "triton{m=64 n=32 k=32 warps=4 stages=3 descriptors=0}", torch.float32)


class Rows(nn.Module):
    """Whisper's beginning, and Conformer's convolution behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv1d(20, 48, 3, padding=1), nn.Conv1d(48, 48, 3, stride=2, padding=1)
        self.each, self.last = nn.Conv1d(48, 48, 31, padding=15, groups=48), nn.Conv1d(48, 24, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.two(F.gelu(self.one(x))))
        return self.last(F.silu(self.each(x)) + x).transpose(1, 2) * 2


class Groups(nn.Module):
    """ResNeXt's, in the layout that the model gives."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow, self.groups = nn.Conv2d(24, 32, 1), nn.Conv2d(32, 32, 3, padding=1, groups=8, bias=False)
        self.norm, self.wide = nn.BatchNorm2d(32), nn.Conv2d(32, 24, 1)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.wide(F.relu(self.norm(self.groups(F.relu(self.narrow(x)))))) + x)


@pytest.mark.parametrize("entry_point", [by_export, by_dynamo])
@pytest.mark.parametrize(
    ("model", "shape", "memory"),
    [(Rows, (3, 20, 61), None), (Rows, (1, 20, 60), None), (Groups, (2, 24, 13, 14), LAST), (Groups, (2, 24, 13, 14), None)],
)
def test_models(model: Any, shape: Shape, memory: torch.memory_format | None, entry_point: Any) -> None:
    """Unmeasured: the library computes the convolutions."""
    made, x = model().eval().cuda().to(BF16), torch.randn(shape, device="cuda").to(BF16)
    if memory is not None:
        made, x = made.to(memory_format=memory), x.contiguous(memory_format=memory)
    with torch.no_grad():
        exact, eager, run = copy.deepcopy(made).double()(x.double()), made(x), entry_point(made, (x,))
        for _ in range(3):
            mine = run(x)
            assert mine.stride() == eager.stride()
            assert (mine - exact).norm() <= 1.5 * (eager - exact).norm()
