"""Tests products whose rows are summed: their kernel returns the sums of blocks of columns, and a small one adds these."""

from collections.abc import Callable

import pytest
import torch
from gpu_programs import tiled
from test_products import SMALL_BLOCKS, check, random, run
from torch import Tensor
from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.program import Launch
from lamina.dialects import context
from lamina.passes.families.gemm.block_sums import BlockSums
from lamina.schedules.product_cost import GemmWork, candidates, default_schedule, lamina_seconds, library_seconds
from lamina.targets.ptx import assemble
from lamina.targets.triton import text as triton_text
from lamina.targets.triton.compiler import compile_kernel, join

TWO_PARTS = "triton{m=32 n=64 k=32 warps=4 stages=2 split=2}"


def chain(x: Tensor, w: Tensor) -> Tensor:
    return torch.relu(x @ w + 1) * 0.5


SUMS: dict[str, Callable[[Tensor, Tensor], Tensor | tuple[Tensor, ...]]] = {
    "rows": lambda x, w: chain(x, w).sum(1),
    "rows, kept": lambda x, w: chain(x, w).sum(1, keepdim=True),
    "all": lambda x, w: chain(x, w).sum(),
    "mean of all": lambda x, w: chain(x, w).mean(),
    "rows, and what follows": lambda x, w: torch.sqrt(chain(x, w).float().mean(1) + 1) * 2,
    "two sums": lambda x, w: ((y := (x @ w).float()).sum(1), (y * y).sum(1)),
    "stored, too": lambda x, w: ((y := chain(x, w)), y.float().sum(1)),
    "norm": lambda x, w: (x @ w).float().square().sum(1).rsqrt(),
}


@pytest.mark.parametrize("schedule", [SMALL_BLOCKS, TWO_PARTS])
@pytest.mark.parametrize("name", SUMS)
def test_sums(name: str, schedule: str) -> None:
    x, w = random(40, 64), random(64, 112)
    _, simulated = run(SUMS[name], x, w, schedule=schedule)
    (kernel,) = simulated.printed.values()
    assert "tl.sum(" in kernel.kernel
    check(SUMS[name], x, w, schedule=schedule)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 64, 64), (3, 127, 129), (65, 2, 40), (127, 40, 200), (64, 96, 2)])
def test_sizes(m: int, n: int, k: int) -> None:
    check(SUMS["rows"], random(m, k), random(k, n))
    check(SUMS["all"], random(m, k), random(k, n))


def test_many_are_split_further() -> None:
    """A sum of 262144 elements or more has already been split."""
    check(SUMS["all"], random(1024, 16), random(16, 256), schedule="triton{m=64 n=64 k=16 warps=4 stages=2}")


def test_pairs_and_batches() -> None:
    check(lambda x, a, b: (torch.sigmoid(x @ a) * (x @ b)).float().sum(1), random(40, 24), random(24, 56), random(24, 56))
    check(lambda a, b: torch.relu(torch.bmm(a, b)).float().sum(2), random(3, 40, 24), random(3, 24, 56))
    check(lambda x, w: torch.relu(x.view(80, 24) @ w).view(2, 40, 56).float().sum((1, 2)), random(2, 40, 24), random(24, 56))


OTHERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "greatest": lambda x, w: chain(x, w).float().amax(1),
    "what follows reads the product": lambda x, w: torch.softmax((x @ w).float(), 1),
    "parts of rows": lambda x, w: (x @ w).float().view(40, 4, 12).sum(2),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_stays_a_kernel_of_its_own(name: str) -> None:
    x, w = random(40, 64), random(64, 48)
    _, simulated = run(OTHERS[name], x, w)
    assert all("tl.sum" not in k.kernel for k in simulated.printed.values())
    check(OTHERS[name], x, w)


def test_the_product_is_not_stored() -> None:
    _, program = tiled(SUMS["all"], (random(1024, 64), random(64, 512)), products=SMALL_BLOCKS)
    assert all(isinstance(step, Launch) for step in program.steps)
    assert sum(b.bytes for b in program.buffers if b.kind == "arena") < 1024 * 512


@pytest.mark.parametrize("config", range(4))
def test_code(config: int) -> None:
    gpu = Gpu.named("sm_90a")
    chosen = candidates(GemmWork(1, 8192, 4096, 4096, 4, 0, 8192 * 16 * 4), gpu)[config]
    module, _ = tiled(SUMS["rows"], (random(512, 256), random(256, 512)), products=str(chosen))
    (printed,) = triton_text.take(module, True)
    (needs,) = assemble(join([compile_kernel(printed, gpu).ptx]), "sm_90a").resources
    assert needs.spill_stores + needs.spill_loads == 0


def test_cost_model() -> None:
    """The product's result is not stored."""
    gpu = Gpu.named("sm_90a")
    work = GemmWork(1, 8192, 4096, 1024, 4, 0, 8192 * 32 * 4)
    assert lamina_seconds(candidates(work, gpu)[0], work, gpu) < library_seconds(work, gpu) and default_schedule(work, gpu)


@pytest.mark.parametrize("start", [0.0, 1.0])
def test_blocks_are_summed_from_nothing(start: float) -> None:
    """The kernel's blocks cannot start a sum from a value other than zero."""
    source = f"""func.func @f(%x: tensor<3x64xf32>) -> tensor<3x2xf32> {{
      %c = arith.constant {start:e} : f32
      %e = tensor.empty() : tensor<3x2xf32>
      %i = linalg.fill ins(%c : f32) outs(%e : tensor<3x2xf32>) -> tensor<3x2xf32>
      %p = tensor.expand_shape %x [[0], [1, 2]] output_shape [3, 2, 32] : tensor<3x64xf32> into tensor<3x2x32xf32>
      %r = linalg.generic {{indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b)>],
          iterator_types = ["parallel", "parallel", "reduction"]}} ins(%p : tensor<3x2x32xf32>) outs(%i : tensor<3x2xf32>) {{
        ^bb0(%v: f32, %s: f32):
          %a = arith.addf %s, %v : f32
          linalg.yield %a : f32
      }} -> tensor<3x2xf32>
      return %r : tensor<3x2xf32>
    }}"""
    with context(), ir.Location.unknown():
        module = ir.Module.parse(source)
        result = list(module.body.operations[0].regions[0].blocks[0].operations)[-1].operands[0]
        found = BlockSums.read(result)
        assert (found is None) == bool(start) and (found is None or found.size == 32)
