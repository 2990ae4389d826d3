"""Tests convolutions as products of Lamina's, with the ops around them: in Triton's interpreter against float64, and compiled to
cubins."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import Simulated, distribute, tiled
from torch import Tensor

from lamina.core.gpu import Gpu
from lamina.core.program import Call, Launch
from lamina.schedules.convolution_cost import SCHEDULES, candidates
from lamina.schedules.product_cost import GemmWork
from lamina.targets.ptx import assemble
from lamina.targets.triton import text as triton_text
from lamina.targets.triton.compiler import compile_kernel, join

pytestmark = pytest.mark.usefixtures("channels_last")

BF16, F16, LAST = torch.bfloat16, torch.float16, torch.channels_last
SMALL_BLOCKS = "triton{m=64 n=32 k=32 warps=4 stages=2}"


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(0)


def random(*shape: int, dtype: torch.dtype = BF16) -> Tensor:
    x = torch.randn(*shape).to(dtype)
    return x.contiguous(memory_format=LAST) if len(shape) == 4 else x


def run(fn: Callable[..., Tensor], *inputs: Tensor, schedule: str = SMALL_BLOCKS, descriptors: bool = True) -> tuple[Tensor, Any]:
    module, program = tiled(fn, inputs, products=schedule)
    printed = triton_text.take(module, descriptors)
    assert printed, "no convolution is ours"
    distribute(module)
    simulated = Simulated(module, program, printed)
    return simulated(*inputs)[0], simulated


def check(fn: Callable[..., Tensor], *inputs: Tensor, kernels: int = 1, **given: Any) -> None:
    """Against float64, with what eager rounds stored values by; nothing but so many Lamina kernels."""
    found, simulated = run(fn, *inputs, **given)
    want, eager = fn(*(x.double() for x in inputs)), fn(*inputs)
    assert found.is_contiguous(memory_format=LAST) and found.dtype == eager.dtype
    assert (found.double() - want).norm() <= 1.05 * (eager.double() - want).norm() + 1e-5 * want.norm()
    assert [type(s) for s in simulated.program.steps] == [Launch] * kernels


CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [  # image, weight, how
    ((3, 32, 5, 7), (24, 32, 3, 3), {"padding": 1}),
    ((1, 24, 5, 7), (40, 24, 3, 3), {"padding": 1}),  # blocks of channels that two positions of the window share
    ((1, 96, 5, 3), (16, 96, 2, 2), {}),
    ((1, 32, 5, 7), (24, 32, 1, 1), {}),  # a product of matrices
    ((3, 32, 5, 7), (24, 32, 1, 1), {"stride": 2}),
    ((3, 3, 11, 9), (16, 3, 7, 7), {"stride": (2, 1), "padding": 3}),
    ((1, 16, 9, 8), (17, 16, 3, 3), {"padding": 2, "dilation": 2}),
    ((3, 16, 5, 7), (16, 16, 3, 2), {"dilation": (2, 3), "stride": 2, "padding": (1, 2)}),
    ((2, 16, 1, 20), (16, 16, 1, 5), {"padding": (0, 2)}),
    ((2, 16, 5, 7), (16, 16, 5, 1), {}),  # a row of pixels
    ((3, 16, 3, 3), (16, 16, 3, 3), {}),  # a pixel of each image
    ((1, 16, 3, 3), (32, 16, 3, 3), {"padding": 3}),  # windows that lie outside
]


@pytest.mark.parametrize(("image", "weight", "how"), CASES)
def test_sizes(image: tuple[int, ...], weight: tuple[int, ...], how: dict[str, Any]) -> None:
    kernels = 1 if image[1] > 3 else 2  # one before makes an image of more channels
    check(lambda x, w, b: F.relu(F.conv2d(x, w, b, **how)), random(*image), random(*weight), random(weight[0]), kernels=kernels)


@pytest.mark.parametrize("descriptors", [True, False])
def test_half(descriptors: bool) -> None:
    inputs = random(2, 16, 6, 5, dtype=F16), random(24, 16, 3, 3, dtype=F16)
    check(lambda x, w: F.conv2d(x, w, padding=1), *inputs, descriptors=descriptors)
    check(lambda x, w: F.conv2d(x, w, stride=2), *inputs, schedule="triton{m=16 n=16 k=64 warps=4 stages=2 resident=1}")


def test_a_norm_a_residual_and_a_gate() -> None:
    """The norms' parameters are arguments; factors apply to whole images and to each image's channels in the same kernel."""

    def block(x: Tensor, w: Tensor, mean: Tensor, var: Tensor, g: Tensor, b: Tensor, r: Tensor, s: Tensor) -> Tensor:
        y = F.batch_norm(F.conv2d(x, w, padding=1), mean, var, g, b)
        return F.silu(y) * s + r

    vectors = random(24), torch.rand(24).to(BF16) + 0.5, random(24), random(24)
    inputs = random(2, 16, 5, 7), random(24, 16, 3, 3), *vectors, random(2, 24, 5, 7), random(2, 24, 1, 1)
    for schedule in (SMALL_BLOCKS, "triton{m=64 n=32 k=16 warps=4 stages=2 split=2}"):
        check(block, *inputs, schedule=schedule)


def test_channels_in_parts() -> None:
    """Each part is summed separately; the kernel that adds them computes the epilogue."""

    def block(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.silu(F.conv2d(x, w, b, padding=1)) + 1

    inputs = random(2, 64, 5, 4), random(24, 64, 3, 3), random(24)
    check(block, *inputs, kernels=2, schedule="triton{m=64 n=32 k=32 warps=4 stages=2 parts=2}")


def test_images_in_rows() -> None:
    """One kernel puts channels last before, another puts them first after."""
    x, w = torch.randn(2, 16, 5, 7).to(BF16), torch.randn(24, 16, 3, 3).to(BF16)
    found, simulated = run(lambda x, w: F.conv2d(x, w, padding=1), x, w)
    want = F.conv2d(x.double(), w.double(), padding=1)
    assert (found.double() - want).norm() <= 4e-3 * want.norm()
    assert not any(isinstance(s, Call) for s in simulated.program.steps)


def test_two_layers() -> None:
    """A convolution's kernel writes channels last for the next one."""

    def net(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
        return F.conv2d(F.relu(F.conv2d(x, w, padding=1)), v, stride=2)

    check(net, random(2, 16, 5, 7), random(16, 16, 3, 3), random(16, 16, 3, 3), kernels=2)


def test_what_stays() -> None:
    """Lamina's products do not compute transposed convolutions; test_convolutions_1d_tf32.py has those of f32."""
    module, program = tiled(F.conv_transpose2d, (random(2, 16, 5, 7), random(16, 16, 3, 3)), products=SMALL_BLOCKS)
    assert not triton_text.take(module, True) and any(isinstance(s, Call) for s in program.steps)


@pytest.mark.parametrize(
    ("channels", "number", "arch"), [(16, 0, "sm_80"), (16, 0, "sm_90a"), (64, 1, "sm_90a"), (64, 2, "sm_80"), (64, 2, "sm_90a")]
)
def test_code(channels: int, number: int, arch: str) -> None:
    """Schedules compile without spills. The image is read by cp.async, 16 bytes at a time, also if several positions of a window
    share a block of the inner dimension; the weight is read by descriptors, if the schedule and the GPU have them."""
    config, gpu = list(SCHEDULES)[number], Gpu.named(arch)
    inputs = random(8, channels, 28, 28), random(128, channels, 3, 3), random(128)
    module, _ = tiled(lambda x, w, b: F.relu(F.conv2d(x, w, b, padding=1)), inputs, products=str(config))
    (printed,) = triton_text.take(module, gpu.capability >= 90)
    made = compile_kernel(printed, gpu)
    (needs,) = assemble(join([made.ptx]), arch).resources
    assert needs.spill_stores + needs.spill_loads == 0
    loads = re.findall(r"cp\.async\.c[ag]\.shared\.global \[.*?\], \[.*?\], (\w+)", made.ptx)
    assert loads.count("0x10") >= 2 * config.m * config.k * 2 // (32 * config.warps * 16)
    assert ("wgmma" if arch == "sm_90a" else "mma.sync") in made.ptx
    assert (made.needs.scratch > 0) == (arch == "sm_90a" and config.descriptors == 1)


def test_candidates() -> None:
    gpu = Gpu.named("sm_90a")
    assert candidates(GemmWork(1, 200704, 64, 576), 64, gpu)[0].n == 64
    assert candidates(GemmWork(1, 3136, 512, 4608), 512, gpu)[0].n >= 128
    assert max(c.m for c in candidates(GemmWork(1, 49, 512, 4608), 512, gpu)) <= 64
    assert {c.parts for c in candidates(GemmWork(1, 49, 512, 4608), 512, gpu)} == {1, 8}
    assert {c.parts for c in candidates(GemmWork(1, 50176, 512, 4608), 512, gpu)} == {1}
    assert {c.k for c in candidates(GemmWork(1, 50176, 96, 864), 96, gpu)} == {32}
    assert all(candidates(GemmWork(1, m, n, 144), 16, gpu) for m in (1, 17, 4096) for n in (8, 300))
