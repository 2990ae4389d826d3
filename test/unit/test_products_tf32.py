"""Tests products of f32 whose factors are rounded to tf32, if torch's settings allow it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import tiled
from test_products import SMALL_BLOCKS, check, run
from torch import Tensor

from lamina.core.gpu import Gpu
from lamina.core.program import Call
from lamina.frontend.fx.destination import destination_of
from lamina.schedules.product_cost import GemmWork, candidates, default_schedule
from lamina.targets.ptx import assemble
from lamina.targets.triton import text as triton_text
from lamina.targets.triton.compiler import compile_kernel, join


@contextmanager
def precision(wanted: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(wanted)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.fixture
def tf32() -> Iterator[None]:
    with precision("high"):
        yield


@pytest.mark.parametrize("descriptors", [True, False])
@pytest.mark.parametrize(("m", "n", "k"), [(32, 32, 32), (1, 64, 64), (3, 127, 129), (65, 1, 40), (64, 96, 2)])
def test_sizes(tf32: None, m: int, n: int, k: int, descriptors: bool) -> None:
    check(torch.mm, torch.randn(m, k), torch.randn(k, n), descriptors=descriptors)


def test_what_follows(tf32: None) -> None:
    def block(x: Tensor, w: Tensor, b: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        y = F.gelu(torch.addmm(b, x, w.t(), beta=0.5, alpha=2)) + r
        return y, y.sum(1)

    inputs = torch.randn(40, 64), torch.randn(48, 64), torch.randn(48), torch.randn(40, 48)
    check(block, *inputs)
    _, simulated = run(block, *inputs)
    (kernel,) = simulated.printed.values()
    assert 'input_precision="tf32"' in kernel.kernel and "tl.sum(" in kernel.kernel


def test_pairs_and_batches(tf32: None) -> None:
    check(lambda x, a, b: F.silu(x @ a) * (x @ b), torch.randn(40, 24), torch.randn(24, 56), torch.randn(24, 56))
    check(lambda a, b: torch.relu(torch.bmm(a, b)), torch.randn(3, 40, 24), torch.randn(3, 24, 56))


def test_the_library_keeps_what_must_not_be_rounded() -> None:
    with precision("highest"):
        module, program = tiled(torch.mm, (torch.randn(40, 64), torch.randn(64, 48)), products=SMALL_BLOCKS)
    assert not triton_text.take(module, True) and isinstance(program.steps[0], Call)


def test_programs_for_gpus_depend_on_the_precision() -> None:
    gm = torch.fx.symbolic_trace(torch.nn.Identity())
    found = {}
    for wanted in ("highest", "high"):
        with precision(wanted):
            found[wanted] = [destination_of(target, gm).identity for target in ("cpu", "nvvm:sm_90a")]
    assert found["highest"][0] == found["high"][0] and found["highest"][1] != found["high"][1]


@pytest.mark.parametrize("across", [False, True])
def test_code(tf32: None, across: bool) -> None:
    """Blocks of f32 fit into shared memory, and tensor cores are used."""
    gpu = Gpu.named("sm_90a")
    work = GemmWork(1, 8192, 4096, 4096, item=4)
    config = candidates(work, gpu)[0]
    weight = torch.randn(256, 512)
    module, _ = tiled(
        lambda x, w: torch.relu(x @ w),
        (torch.randn(256, 256), weight.t().contiguous().t() if across else weight),
        products=str(config),
    )
    (printed,) = triton_text.take(module, True)
    made = compile_kernel(printed, gpu)
    assert ".tf32.tf32" in made.ptx
    assemble(join([made.ptx]), "sm_90a")


def test_unmeasured_it_is_the_librarys() -> None:
    assert default_schedule(GemmWork(1, 8192, 3072, 256, 10, 0, 8192 * 3072 * 4, item=4), Gpu.named("sm_90a")) is None
