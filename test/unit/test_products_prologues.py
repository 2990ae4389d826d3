"""Tests products whose factors are computed from the blocks that their kernel loads: in Triton's interpreter against float64, and
compiled to cubins."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import tiled
from problems import kernels_of, products
from test_products import F16, SMALL_BLOCKS, check, random, run
from test_tune_products import graph_level
from torch import Tensor

from lamina.core.gpu import Gpu
from lamina.targets.ptx import assemble
from lamina.targets.triton import text as triton_text
from lamina.targets.triton.compiler import compile_kernel, join
from lamina.tune.problems.subgraph_extraction import Subgraph

PROLOGUE = f"prologue {SMALL_BLOCKS}"
PARTS = f"{PROLOGUE.removesuffix('}')} parts=2}}"
WIDE = "prologue triton{m=32 n=64 k=32 warps=4 stages=2 split=2}"


def int8(*shape: int) -> Tensor:
    return torch.randint(-127, 128, shape, dtype=torch.int8)


def quantized(x: Tensor, w: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return F.silu(F.linear(x, w.to(x.dtype) * scale[:, None], bias))


def swiglu(gate: Tensor, up: Tensor, w: Tensor) -> Tensor:
    return F.linear(F.silu(gate) * up, w)


def normalized(x: Tensor, mean: Tensor, rstd: Tensor, gamma: Tensor, beta: Tensor, w: Tensor) -> Tensor:
    return F.linear(((x - mean) * rstd * gamma + beta).to(w.dtype), w)


@pytest.mark.parametrize("schedule", [PROLOGUE, WIDE])
@pytest.mark.parametrize(("m", "n", "k"), [(32, 32, 32), (3, 127, 129), (65, 1, 40), (1, 400, 100), (64, 96, 2)])
def test_sizes(m: int, n: int, k: int, schedule: str) -> None:
    check(lambda x, w: torch.relu(x + 1) @ w, random(m, k), random(k, n), schedule=schedule)
    check(quantized, random(m, k), int8(n, k), torch.rand(n).bfloat16() * 0.01, random(n), schedule=schedule)


CASES: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "scale": (lambda x, s, w: (x * s) @ w, (random(40, 72), random(1), random(72, 48))),
    "silu(gate) * up": (swiglu, (random(2, 20, 72), random(2, 20, 72), random(48, 72))),
    "norm": (normalized, (random(2, 20, 72), random(2, 20, 1), torch.rand(2, 20, 1), random(72), random(72), random(48, 72))),
    "cast": (lambda x, w: x.to(w.dtype) @ w, (torch.randn(40, 72), random(72, 48, dtype=F16))),
    "integers as they are": (lambda x, w, s: F.linear(x, w.to(x.dtype)) * s, (random(40, 72), int8(48, 72), random(48) * 0.01)),
    "both": (lambda x, w, s: torch.tanh(x) @ (w.to(x.dtype) * s), (random(40, 72), int8(72, 48), random(48) * 0.01)),
    "batches": (lambda a, b: torch.bmm(torch.exp(a * 0.1), b.transpose(1, 2)), (random(3, 40, 24), random(3, 56, 24))),
    "added": (lambda c, x, w: torch.addmm(c, F.gelu(x), w, beta=0.5), (random(40, 48), random(40, 72), random(72, 48))),
    "the same in every column": (lambda x, w: (x.expand(40, 64) * 1.5) @ w, (random(40, 1), random(64, 48))),
    "pair": (lambda x, a, b: torch.sigmoid((y := torch.relu(x)) @ a) * (y @ b), (random(40, 72), random(72, 48), random(72, 48))),
    "sums of rows": (lambda x, w: (torch.relu(x) @ w).float().sum(1), (random(40, 72), random(72, 48))),
}


@pytest.mark.parametrize("name", CASES)
def test_factors(name: str) -> None:
    """One kernel, or two if rows are summed: the values that a factor is computed from are not stored."""
    fn, inputs = CASES[name]
    _, simulated = run(fn, *inputs, schedule=PROLOGUE)
    assert len(simulated.program.steps) == 1 + (name == "sums of rows")
    check(fn, *inputs, schedule=PROLOGUE)


def test_inner_dimensions_in_parts() -> None:
    inputs = random(2, 4, 192), int8(48, 192), random(48) * 0.01, random(48)
    _, simulated = run(quantized, *inputs, schedule=PARTS)
    assert len(simulated.program.steps) == 2 and len(simulated.printed) == 1
    check(quantized, *inputs, schedule=PARTS)


def test_rounded_as_what_would_be_written() -> None:
    x, w = random(40, 72), torch.eye(72).bfloat16()
    (found,), _ = run(lambda x, w: torch.exp(x) @ w, x, w, schedule=PROLOGUE)
    assert torch.equal(found, torch.exp(x.double()).bfloat16())


def test_nothing_behind_the_end_of_rows() -> None:
    """Past the end, factors count as zero even if they would be infinite for an input of zero."""
    (found,), _ = run(lambda x, w: (1 / x) @ (1 / w), x := random(8, 33).abs() + 1, w := random(33, 8).abs() + 1, schedule=PROLOGUE)
    assert torch.allclose(found.double(), (1 / x.double()) @ (1 / w.double()), rtol=2e-2)


def test_what_does_not_vary_is_computed_once() -> None:
    """It is computed before the loop, where its operands are read."""
    _, simulated = run(quantized, random(8, 72), int8(48, 72), random(48), random(48), schedule=PROLOGUE)
    (kernel,) = simulated.printed.values()
    before, loop = kernel.kernel.split("for k in")
    assert before.count("tl.load(") == 1 and loop.split("tl.dot")[0].count("tl.load(") == 1


OTHERS: dict[str, Callable[..., object]] = {
    "read twice": lambda x, w: ((y := torch.relu(x)) @ w) @ y[:48, :48],
    "a result too": lambda x, w: ((y := torch.relu(x)), y @ w),
    "sums": lambda x, w: torch.softmax(x.float(), 1).to(x.dtype) @ w,
    "follows a product": lambda x, w: torch.relu(x @ w) @ w[:48],
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_stays_a_kernel_of_its_own(name: str) -> None:
    _, program = tiled(OTHERS[name], (random(48, 72), random(72, 48)), products=PROLOGUE)
    assert len(program.steps) > 1


def unmeasured(fn: Callable[..., Tensor], *inputs: Tensor) -> str:
    module = graph_level(*inputs, fn=fn)
    (problem,) = products(module)
    with module.context:
        return kernels_of(problem, Gpu.named("sm_90a"))[1]


@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 4096, 4096), (8, 768, 768), (32, 14336, 4096), (32, 4096, 14336), (2048, 4096, 4096)]
)
def test_few_rows_by_int8_weights_are_ours_unmeasured(m: int, n: int, k: int) -> None:
    """With many rows, each block of the result would convert the weights again."""
    inputs = torch.empty(m, k).bfloat16(), torch.empty(n, k).char(), torch.empty(n).bfloat16()
    assert unmeasured(lambda x, w, s: F.linear(x, w.to(x.dtype) * s[:, None]), *inputs).startswith("prologue ") == (m <= 32)


def test_activations_of_many_rows_are_not() -> None:
    x, w = torch.empty(4096, 4096).bfloat16(), torch.empty(4096, 4096).bfloat16()
    assert not unmeasured(swiglu, x, x, w)


def test_asked_with_what_makes_the_factor() -> None:
    module = graph_level(random(8, 64), int8(96, 64), random(96), random(96), fn=quantized)
    (problem,) = products(module)
    cut = Subgraph(problem)
    assert cut.what.startswith("to_copy_mul, then addmm 8x64 by 64x96 and ")
    assert cut.text.count('"graph.group"') == 2 and "96x64xi8" in cut.text
    with module.context:
        first, second = kernels_of(problem, Gpu.named("sm_90a"))[0][:2]
    assert first.startswith("prologue ") and not second.startswith("prologue ")


DECODE = "prologue triton{m=16 n=32 k=128 warps=2 stages=5 descriptors=0}"
WIDER = "prologue triton{m=32 n=64 k=128 warps=4 stages=4 descriptors=0}"
WARPGROUPS = "prologue triton{m=128 n=128 k=64 warps=4 stages=3}"


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("name", "schedule"), [("int8", DECODE), ("int8", WIDER), ("silu", WIDER), ("silu", WARPGROUPS)])
def test_code(name: str, schedule: str, arch: str) -> None:
    """Nothing spills, and the tensor cores multiply the computed values."""
    gpu = Gpu.named(arch)
    silu = swiglu, (random(256, 512), random(256, 512), random(384, 512))
    fn, inputs = silu if name == "silu" else (quantized, (random(32, 512), int8(384, 512), random(384), random(384)))
    module, _ = tiled(fn, inputs, products=schedule)
    (printed,) = triton_text.take(module, gpu.capability >= 90)
    made = compile_kernel(printed, gpu)
    (needs,) = assemble(join([made.ptx]), arch).resources
    assert needs.spill_stores + needs.spill_loads == 0
    assert ("wgmma" if arch == "sm_90a" and "m=128" in schedule else "mma.sync") in made.ptx
