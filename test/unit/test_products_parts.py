"""Tests products whose inner dimension is split into parts: their sums, and the kernel that adds them and computes the epilogue."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import tiled
from test_products import check, random, run
from torch import Tensor

from lamina.core.gpu import Gpu
from lamina.core.program import Launch
from lamina.schedules.contraction import GemmConfig
from lamina.schedules.product_cost import GemmWork, candidates, default_schedule, lamina_seconds, library_seconds
from lamina.targets.ptx import assemble
from lamina.targets.triton import text as triton_text
from lamina.targets.triton.compiler import compile_kernel, join

PARTS = "triton{m=16 n=32 k=32 warps=4 stages=2 parts=4}"


@pytest.mark.parametrize("descriptors", [True, False])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 64, 256), (3, 127, 132), (65, 1, 40), (17, 40, 1024)])
def test_sizes(m: int, n: int, k: int, descriptors: bool) -> None:
    check(torch.mm, random(m, k), random(k, n), descriptors=descriptors, schedule=PARTS)


FUNCTIONS: dict[str, tuple[Callable[..., Tensor | tuple[Tensor, ...]], int]] = {  # and how many weights they have
    "gelu of the transposed": (lambda x, w: F.gelu(F.linear(x, w.t().contiguous())), 1),
    "bias and residual": (lambda x, w: torch.addmm(x.sum(1, True), x, w, beta=0.5, alpha=2) + x[:, :1], 1),
    "pair": (lambda x, a, b: F.silu(x @ a) * (x @ b), 2),
    "two results": (lambda x, w: ((y := x @ w), torch.relu(y)), 1),
    "softmax": (lambda x, w: torch.softmax((x @ w).float(), 1), 1),
    "norm": (lambda x, w: F.layer_norm((x @ w).float(), (56,)), 1),
    "columns": (lambda x, w: torch.relu(x @ w).float().sum(0), 1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_follows(name: str) -> None:
    fn, weights = FUNCTIONS[name]
    check(fn, random(20, 192), *(random(192, 56) for _ in range(weights)), schedule=PARTS)


def test_batches() -> None:
    check(lambda a, b: torch.relu(torch.bmm(a, b)), random(3, 20, 72), random(3, 72, 56), schedule=PARTS)
    check(lambda c, a, b: torch.baddbmm(c, a, b, alpha=2), random(56), random(3, 20, 72), random(3, 56, 72).mT, schedule=PARTS)


def test_two_kernels_and_nothing_else() -> None:
    _, program = tiled(FUNCTIONS["softmax"][0], (random(20, 192), random(192, 56)), products=PARTS)
    assert [type(step) for step in program.steps] == [Launch, Launch]
    (memory,) = (b for b in program.buffers if b.kind == "arena")
    assert memory.bytes == 4 * 20 * 56 * 4


def test_the_same_each_time() -> None:
    x, w = random(20, 1024), random(1024, 56)
    (one,), _ = run(torch.mm, x, w, schedule=PARTS)
    (other,), _ = run(torch.mm, x, w, schedule=PARTS)
    assert torch.equal(one, other)


def test_an_inner_dimension_that_has_no_such_parts() -> None:
    """The schedule does not apply to it: the library is kept."""
    _, program = tiled(torch.mm, (random(20, 70), random(70, 56)), products=PARTS)
    assert not any(isinstance(step, Launch) for step in program.steps)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 4096, 4096), (32, 4096, 4096), (128, 128, 16384)])
@pytest.mark.parametrize("name", ["sm_90a", "sm_80"])
def test_candidates_compile(name: str, m: int, n: int, k: int) -> None:
    """The most promising candidate with parts compiles without spills."""
    gpu = Gpu.named(name)
    best = next(c for c in candidates(GemmWork(1, m, n, k), gpu) if c.parts > 1)
    module, _ = tiled(torch.mm, (random(m, k), random(k, n)), products=str(best))
    (printed,) = triton_text.take(module, gpu.capability >= 90)
    (needs,) = assemble(join([compile_kernel(printed, gpu).ptx]), name).resources
    assert needs.spill_stores + needs.spill_loads == 0


def test_cost_model() -> None:
    gpu = Gpu.named("sm_90a")
    for m, n, k in ((16, 512, 8192), (128, 128, 16384)):
        work = GemmWork(1, m, n, k, 4, 0, 2 * m * n)
        found = candidates(work, gpu)
        best = next(c for c in found if c.parts == 1)
        assert lamina_seconds(found[0], work, gpu) < lamina_seconds(best, work, gpu)
        assert lamina_seconds(found[0], work, gpu) > work.factors / gpu.bandwidth
        assert default_schedule(work, gpu) is None, "what was not measured is the library's"
    assert candidates(GemmWork(1, 16, 4096, 4096), gpu)[0].parts == 1, "with parts it took as long (H100: 21.9 and 21.7 us)"
    assert all(c.parts == 1 for c in candidates(GemmWork(1, 8192, 4096, 4096), gpu)), "blocks enough"
    assert all(c.parts == 1 for c in candidates(GemmWork(1, 128, 128, 16383), gpu)), "no parts of one size"
    assert GemmConfig.read("triton{m=16 parts=8}").parts == 8 and library_seconds(work, gpu)
