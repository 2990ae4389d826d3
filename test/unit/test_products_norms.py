"""Tests products followed by norms: their kernel returns the product, with bias and residual, and the statistics of blocks of
columns; a small kernel combines these, and the norm reads the product once."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import tiled
from test_products import SMALL_BLOCKS, check, random, run
from torch import Tensor

from lamina.core.gpu import Gpu
from lamina.targets.ptx import assemble
from lamina.targets.triton import text as triton_text
from lamina.targets.triton.compiler import compile_kernel, join

TWO_PARTS = "triton{m=32 n=64 k=32 warps=4 stages=2 split=2}"
Result = Tensor | tuple[Tensor, ...]


def rms(x: Tensor, weight: Tensor) -> Tensor:
    wide = x.float() if x.dtype != torch.float64 else x
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight


NORMS: dict[str, Callable[..., Result]] = {
    "layer norm": lambda x, w, b, r, g, c: F.layer_norm(F.linear(x, w, b), g.shape, g, c),
    "of the residual stream": lambda x, w, b, r, g, c: ((y := F.linear(x, w, b) + r), F.layer_norm(y, g.shape, g, c)),
    "after the residual": lambda x, w, b, r, g, c: F.layer_norm(F.linear(x, w, b) + r, g.shape, g, c),
    "RMS norm": lambda x, w, b, r, g, c: ((y := F.linear(x, w) + r), rms(y, g)),
    "RMS norm alone": lambda x, w, b, r, g, c: rms(F.linear(x, w), g),
    "variance": lambda x, w, b, r, g, c: F.linear(x, w, b).float().var(-1, correction=0),
}


def inputs(m: int, n: int, k: int) -> tuple[Tensor, ...]:
    return random(2, m, k), random(n, k), random(n), random(2, m, n), random(n), random(n)


@pytest.mark.parametrize("schedule", [SMALL_BLOCKS, TWO_PARTS])
@pytest.mark.parametrize("name", NORMS)
def test_norms(name: str, schedule: str) -> None:
    given = inputs(20, 100, 64)
    _, simulated = run(NORMS[name], *given, schedule=schedule)
    (kernel,) = simulated.printed.values()
    assert "tl.sum(" in kernel.kernel and len(simulated.program.steps) == 3 - (name == "variance")
    check(NORMS[name], *given, schedule=schedule)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 64, 64), (3, 127, 129), (17, 33, 40), (20, 96, 2)])
def test_sizes(m: int, n: int, k: int) -> None:
    check(NORMS["of the residual stream"], *inputs(m, n, k))
    check(NORMS["of the residual stream"], *inputs(m, n, k), schedule=TWO_PARTS)


@pytest.mark.parametrize("schedule", [SMALL_BLOCKS, TWO_PARTS])
def test_far_from_zero(schedule: str) -> None:
    """The mean is a thousand times the deviation: a variance from the mean of squares would lose all digits."""
    x, w, b, r, g, c = inputs(20, 100, 64)
    given = x, w * 1e-2, b, r + 1000, g, c
    check(lambda x, w, b, r, g, c: F.layer_norm(F.linear(x, w) + r, g.shape, g, c), *given, schedule=schedule)


def test_rows_that_are_all_one_number() -> None:
    """The statistics are those of the stored, rounded values."""
    x, w, b, r, g, c = inputs(20, 100, 64)
    given = x, w * 0, torch.full_like(b, 0.3), torch.full_like(r, 100.0), g, c
    (found,), _ = run(NORMS["after the residual"], *given)
    assert torch.equal(found, c.expand_as(found))


@pytest.mark.parametrize("schedule", ["triton{m=128 n=128 k=64 warps=8 stages=3}", "triton{m=128 n=256 k=64 warps=8 split=2}"])
@pytest.mark.parametrize("name", ["of the residual stream", "RMS norm"])
def test_code(name: str, schedule: str) -> None:
    gpu = Gpu.named("sm_90a")
    module, _ = tiled(NORMS[name], inputs(128, 1000, 256), products=schedule)
    (printed,) = triton_text.take(module, True)
    (needs,) = assemble(join([compile_kernel(printed, gpu).ptx]), "sm_90a").resources
    assert needs.spill_stores + needs.spill_loads == 0
