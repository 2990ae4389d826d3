"""Tests 1-D convolutions, and convolutions of f32 rounded to tf32, as Lamina kernels: in Triton's interpreter and the simulator,
against float64."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import Simulated, distribute, tiled
from test_products_convolutions import SMALL_BLOCKS, check, random
from torch import Tensor

from lamina.core.gpu import Gpu
from lamina.core.program import Call, Launch
from lamina.frontend.fx.destination import destination_of
from lamina.schedules.convolution_cost import candidates
from lamina.schedules.product_cost import GemmWork
from lamina.targets.ptx import assemble
from lamina.targets.triton import text as triton_text
from lamina.targets.triton.compiler import compile_kernel, join

pytestmark = pytest.mark.usefixtures("channels_last")

BF16 = torch.bfloat16


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(0)


def check_rows(fn: Callable[..., Tensor], *inputs: Tensor, schedule: str = SMALL_BLOCKS, launches: int) -> None:
    """Strides are eager's: where these are no channels last, a kernel copies."""
    module, program = tiled(fn, inputs, products=schedule)
    printed = triton_text.take(module, True)
    distribute(module)
    found = Simulated(module, program, printed)(*inputs)[0]
    want, eager = fn(*(x.double() for x in inputs)), fn(*inputs)
    assert found.stride() == eager.stride() and found.dtype == eager.dtype
    assert (found.double() - want).norm() <= 1.25 * (eager.double() - want).norm() + 1e-5 * want.norm()
    assert [type(s) for s in program.steps] == [Launch] * launches


def whisper(x: Tensor, w: Tensor, b: Tensor, v: Tensor, c: Tensor, p: Tensor) -> Tensor:
    """The encoder's beginning."""
    x = F.gelu(F.conv1d(F.gelu(F.conv1d(x, w, b, padding=1)), v, c, stride=2, padding=1))
    return x.permute(0, 2, 1) + p


def test_rows_as_products() -> None:
    """The first kernel lays out image and weights. A convolution's kernel also computes the ops after it and writes the next
    one's layout. The ops after the second convolution put channels last in a separate kernel; a result without further ops is
    copied to eager's layout."""
    inputs = random(2, 20, 31), random(24, 20, 3), random(24), random(24, 24, 3), random(24), random(16, 24)
    check_rows(whisper, *inputs, launches=4)
    check_rows(lambda x, w: F.conv1d(x, w, padding=4, dilation=3), random(1, 16, 23), random(17, 16, 4), launches=3)


@pytest.mark.parametrize("residual", [True, False])
def test_rows_in_strips(residual: bool) -> None:
    """As in Conformer: one filter per channel. The result is copied to eager's layout."""

    def block(x: Tensor, w: Tensor, b: Tensor, r: Tensor) -> Tensor:
        y = F.silu(F.conv1d(x, w, b, padding=7, groups=32))
        return y + r if residual else y * 2

    check_rows(block, random(2, 32, 23), random(32, 1, 15), random(32), random(2, 32, 23), schedule="direct", launches=3)


def test_one_row_of_one_channel() -> None:
    """Pixels and windows have one axis each, but the image is still padded with zeros."""
    check_rows(lambda x, w: F.conv1d(x, w, padding=8), random(1, 1, 40), random(17, 1, 16), launches=2)
    inputs = random(1, 16, 1, 9), random(16, 16, 2, 1)  # a bound on the axis itself
    check_rows(lambda x, w: F.conv2d(x, w, padding=(1, 6), stride=(2, 1)), *inputs, launches=1)


def test_rows_stay_the_librarys_unmeasured() -> None:
    _, program = tiled(F.conv1d, (random(2, 16, 20), random(16, 16, 3)))
    assert [s.callee for s in program.steps if isinstance(s, Call)] == ["aten.convolution.default"]


@contextmanager
def rounding(allowed: bool) -> Iterator[None]:
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


def images(*shape: int) -> Tensor:
    return random(*shape, dtype=torch.float32)


@pytest.mark.parametrize(("groups", "kernel"), [(1, 3), (2, 3), (1, 1)])
def test_f32(groups: int, kernel: int) -> None:
    def block(x: Tensor, w: Tensor, b: Tensor, r: Tensor) -> Tensor:
        return F.relu(F.conv2d(x, w, b, padding=kernel // 2, groups=groups)) + r

    inputs = images(2, 32, 5, 7), images(40, 32 // groups, kernel, kernel), images(40), images(2, 40, 5, 7)
    with rounding(True):
        check(block, *inputs)


def test_f32_in_parts() -> None:
    with rounding(True):
        schedule = "triton{m=64 n=32 k=32 warps=4 stages=2 parts=2}"
        check(lambda x, w: F.silu(F.conv2d(x, w)), images(1, 64, 5, 7), images(24, 64, 3, 3), kernels=2, schedule=schedule)


def test_the_library_keeps_what_must_not_be_rounded() -> None:
    with rounding(False):
        module, program = tiled(F.conv2d, (images(1, 32, 5, 7), images(40, 32, 3, 3)), products=SMALL_BLOCKS)
    assert not triton_text.take(module, True) and any(isinstance(s, Call) for s in program.steps)


def test_programs_for_gpus_depend_on_the_rounding() -> None:
    gm = torch.fx.symbolic_trace(torch.nn.Identity())
    found = {}
    for allowed in (True, False):
        with rounding(allowed):
            found[allowed] = [destination_of(target, gm).identity for target in ("cpu", "nvvm:sm_90a")]
    assert found[True][0] == found[False][0] and found[True][1] != found[False][1]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_code(arch: str) -> None:
    """The first schedule compiles without spills, for tensor cores that round to tf32."""
    gpu = Gpu.named(arch)
    schedule = candidates(GemmWork(1, 8 * 28 * 28, 64, 576, item=4), 64, gpu)[0]
    with rounding(True):
        module, _ = tiled(
            lambda x, w: F.relu(F.conv2d(x, w, padding=1)), (images(8, 64, 28, 28), images(64, 64, 3, 3)), products=str(schedule)
        )
    (printed,) = triton_text.take(module, gpu.capability >= 90)
    made = compile_kernel(printed, gpu)
    (needs,) = assemble(join([made.ptx]), arch).resources
    assert needs.spill_stores + needs.spill_loads == 0
    assert ".tf32" in made.ptx
