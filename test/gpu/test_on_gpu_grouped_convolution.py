"""Convolutions of several groups on the GPU as kernels of ours, whatever tuning would choose, held against float64."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import tiled
from torch import Tensor

from lamina.core.gpu import Gpu
from lamina.core.program import Call
from lamina.core.program_needs import with_needs
from lamina.runtime.executable import Executable
from lamina.schedules.convolution_cost import SCHEDULES
from lamina.targets.nvvm import NvvmTarget

BF16, F16, LAST = torch.bfloat16, torch.float16, torch.channels_last
Shape = tuple[int, ...]

IMAGES: dict[str, tuple[Shape, Shape, dict[str, Any]]] = {  # image, weight, how
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
    artifact = NvvmTarget(Gpu.named("sm_90a")).compile(module)
    run = Executable(with_needs(program, artifact.needs), artifact)
    run.load(0)
    (found,), want = run(*inputs), block(*(t.double() for t in inputs))
    assert (found.double() - want).norm() < (5e-3 if dtype is BF16 else 1e-3) * want.norm()


@pytest.mark.parametrize("name", IMAGES)
def test_strips(name: str) -> None:
    check(name, "strips")


@pytest.mark.parametrize("name", ["4 channels", "32 channels"])
def test_strips_of_f16(name: str) -> None:
    check(name, "strips", F16)


@pytest.mark.parametrize("schedule", map(str, FEW))
@pytest.mark.parametrize("name", ["16 channels", "32 channels"])
def test_products(name: str, schedule: str) -> None:
    check(name, schedule)


@pytest.mark.parametrize("name", ["24 channels", "1x1"])
def test_odd_products(name: str) -> None:
    check(name, str(FEW[0]))
