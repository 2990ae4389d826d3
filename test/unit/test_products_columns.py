"""Tests products whose columns are summed, as for gradients of biases: their kernel returns the sums of blocks of rows, and a
small one adds these."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import tiled
from problems import kernels_of, products
from test_products import SMALL_BLOCKS, check, random, run
from test_products_sums import TWO_PARTS, chain
from test_tune_products import graph_level
from torch import Tensor
from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.program import Launch
from lamina.passes.families.gemm.problem import as_one_group
from lamina.passes.ir.reading import shape_of
from lamina.schedules.contraction import GemmConfig
from lamina.schedules.product_cost import GemmWork, candidates
from lamina.targets.ptx import assemble
from lamina.targets.triton import text as triton_text
from lamina.targets.triton.compiler import compile_kernel, join

MEDIUM = "triton{m=64 n=128 k=16 warps=4 stages=2}"
LARGE = "triton{m=128 n=128 k=16 warps=4 stages=2}"


def gradients(dy: Tensor, w: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    dx: Tensor = torch.ops.aten.gelu_backward(dy @ w, x)
    return dx, dx.float().sum(0)


SUMS: dict[str, Callable[[Tensor, Tensor], Tensor | tuple[Tensor, ...]]] = {
    "alone": lambda x, w: chain(x, w).sum(0),
    "kept": lambda x, w: ((y := chain(x, w)), y.sum(0, keepdim=True)),
    "two": lambda x, w: ((y := (x @ w).float()).sum(0), (y * y).sum(0)),
    "rows in two dimensions": lambda x, w: ((y := chain(x, w).view(5, 8, 112)), y.sum((0, 1))),
    "what follows": lambda x, w: torch.sqrt(chain(x, w).float().mean(0) + 1) * 2,
    "what follows for each row": lambda x, w: (y := chain(x, w)).float() - y.float().mean(0),
}


@pytest.mark.parametrize("schedule", [SMALL_BLOCKS, TWO_PARTS])
@pytest.mark.parametrize("name", SUMS)
def test_sums(name: str, schedule: str) -> None:
    x, w = random(40, 64), random(64, 112)
    (kernel,) = check(SUMS[name], x, w, schedule=schedule).printed.values()
    assert ", 0, keep_dims" in kernel.kernel


@pytest.mark.parametrize(("m", "n", "k"), [(2, 64, 64), (3, 127, 129), (65, 2, 40), (127, 40, 200)])
def test_sizes(m: int, n: int, k: int) -> None:
    check(gradients, random(m, k), random(k, n), random(m, n))


def test_of_a_vector() -> None:
    check(gradients, random(1, 40), random(40, 64), random(1, 64))
    inputs = random(40, 24), random(24, 1), random(40, 1)
    for found, want in zip(run(gradients, *inputs)[0], gradients(*(x.double() for x in inputs)), strict=True):
        assert torch.allclose(found.double(), want.double(), 1e-2, 0.1)


@pytest.mark.parametrize(("rows", "schedule", "steps"), [(1024, MEDIUM, 3), (1024, LARGE, 2), (8 * 131, LARGE, None)])
def test_many_are_split_before(rows: int, schedule: str, steps: int | None) -> None:
    """A sum of 262144 elements or more is split into parts of rows: single blocks, several blocks, or parts that are not whole
    blocks."""
    simulated = check(gradients, random(rows, 16), random(16, 256), random(rows, 256), schedule=schedule)
    (kernel,) = simulated.printed.values()
    assert ("tl.sum" in kernel.kernel) == (steps is not None)
    assert steps is None or (len(simulated.program.steps) == steps and all(isinstance(s, Launch) for s in simulated.program.steps))


def test_backward_graph() -> None:
    def loss(dy: Tensor, x: Tensor, a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        _, back = torch.func.vjp(lambda x, a, b, c: F.linear(F.gelu(F.linear(x, a, b)), c), x, a, b, c)
        return tuple(back(dy))

    inputs = random(2, 20, 24), random(2, 20, 40), random(72, 40), random(72), random(24, 72)
    assert any(", 0, keep_dims" in kernel.kernel for kernel in check(loss, *inputs).printed.values())


def test_pairs() -> None:
    check(lambda x, a, b: (torch.sigmoid(x @ a) * (x @ b)).float().sum(0), random(40, 24), random(24, 56), random(24, 56))


OTHERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "of what depends on another": lambda x, w: ((y := (x @ w).float()) - y.mean(0)).square().sum(0),
    "parts of rows": lambda x, w: (x @ w).float().view(4, 10, 48).sum(1),
    "rows before zeros": lambda x, w: F.pad((x @ w).float(), (0, 0, 24, 0)).view(2, 32, 48).sum(1),
    "of a batch": lambda x, w: torch.bmm(x.view(4, 10, 64), w.expand(4, 64, 48)).float().sum(1),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_stays_a_kernel_of_its_own(name: str) -> None:
    x, w = random(40, 64), random(64, 48)
    assert all("tl.sum" not in k.kernel for k in check(OTHERS[name], x, w).printed.values())


@pytest.mark.parametrize("config", range(2))
def test_code(config: int) -> None:
    gpu = Gpu.named("sm_90a")
    chosen = candidates(GemmWork(1, 8192, 4096, 4096, 20, 0, 8192 * 16 * 4), gpu)[config]
    module, _ = tiled(gradients, (random(512, 256), random(256, 512), random(512, 512)), products=str(chosen))
    (printed,) = triton_text.take(module, True)
    (needs,) = assemble(join([compile_kernel(printed, gpu).ptx]), "sm_90a").resources
    assert ("sums(" if chosen.ping_pong else "tl.sum(") in printed.kernel and needs.spill_stores + needs.spill_loads == 0


@pytest.mark.parametrize("rows", [200, 4096])
def test_tuning_alone_takes_it(rows: int) -> None:
    """It is never chosen unmeasured. A sum of many rows has been split into parts before."""
    module = graph_level(random(rows, 1024), random(1024, 4096), random(rows, 4096), fn=lambda *t: gradients(*t)[1])
    with module.context, ir.Location.unknown():
        (problem,) = products(module)
        found, default = kernels_of(problem, Gpu.named("sm_90a"))
        assert found and not default
        config = GemmConfig.read(found[0])
        (sums,) = as_one_group(problem.gemm, config).results
    assert shape_of(sums) == (-(-rows // config.m), 4096)
