"""Tests two products that share their left factor and meet in one group, as one kernel with two sums."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import tiled
from test_products import SMALL_BLOCKS, check, random, run
from torch import Tensor

from lamina.core.gpu import Gpu
from lamina.core.program import Call
from lamina.schedules.contraction import GemmConfig
from lamina.schedules.product_cost import PAIRS, GemmWork, candidates
from lamina.targets.ptx import assemble
from lamina.targets.triton import text as triton_text
from lamina.targets.triton.compiler import compile_kernel, join
from lamina.targets.triton.printing import pairs as triton_pairs

JOINT = "triton{m=32 n=32 k=32 warps=4 stages=2 joint=1}"


def swiglu(x: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(F.linear(x, gate)) * F.linear(x, up)


def geglu(x: Tensor, gate: Tensor, up: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return F.gelu(F.linear(x, gate, b)) * F.linear(x, up, c)


@pytest.mark.parametrize("descriptors", [True, False])
@pytest.mark.parametrize(("m", "n", "k"), [(32, 32, 32), (3, 127, 129), (65, 1, 40), (1, 40, 1000), (64, 96, 2)])
def test_sizes(m: int, n: int, k: int, descriptors: bool) -> None:
    check(swiglu, random(m, k), random(n, k), random(n, k), descriptors=descriptors)


@pytest.mark.parametrize("schedule", [SMALL_BLOCKS, "triton{m=32 n=64 k=32 warps=4 stages=2 split=2}"])
def test_biases_and_three_dimensions(schedule: str) -> None:
    check(geglu, random(2, 20, 64), random(100, 64), random(100, 64), random(100), random(100), schedule=schedule)


@pytest.mark.parametrize(("m", "n", "k"), [(40, 96, 64), (3, 127, 128), (65, 1, 40), (1, 40, 1000), (64, 96, 2)])
def test_one_dot(m: int, n: int, k: int) -> None:
    """Both products share one dot. If the weights cannot be read by a descriptor, there are two."""
    x, gate, up = random(m, k), random(n, k), random(n, k)
    check(swiglu, x, gate, up, schedule=JOINT)
    check(swiglu, x, up, gate, schedule=JOINT)
    check(swiglu, x, gate, gate.clone(), schedule=f"{JOINT.removesuffix('}')} split=2 n=64}}")


def test_one_dot_reads_both_by_one_descriptor() -> None:
    _, simulated = run(swiglu, random(40, 64), random(96, 64), random(96, 64), schedule=JOINT)
    (kernel,) = simulated.printed.values()
    near, apart, either = kernel.kernel.split("@triton.jit")[1:]
    assert near.count("tl.dot(") == 1 and "[2, 32, 32])" in near and apart.count("tl.dot(") == 2 and "1099511627776" in either
    for fn in (lambda x, a, b: torch.tanh(x @ a) * (x @ b), lambda x, a, b: torch.tanh(x @ a.t()) * (x @ b)):
        _, simulated = run(fn, random(40, 64), random(64, 64), random(64, 64), schedule=JOINT)
        assert all("both" not in k.kernel for k in simulated.printed.values())


def test_weights_far_apart_are_multiplied_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_pairs, "FARTHEST", 1)
    check(swiglu, random(40, 64), random(96, 64), random(96, 64), schedule=JOINT)


def test_half_of_a_pair() -> None:
    check(swiglu, random(40, 64), random(96, 64), random(96, 64), schedule=f"first {SMALL_BLOCKS}", calls=1)
    check(geglu, random(40, 64), random(96, 64), random(96, 64), random(96), random(96), schedule=f"first {SMALL_BLOCKS}", calls=1)


def test_one_kernel_reads_what_they_share_once() -> None:
    _, simulated = run(swiglu, random(40, 64), random(96, 64), random(96, 64))
    assert len(simulated.program.steps) == 1
    (kernel,) = simulated.printed.values()
    assert kernel.kernel.count("x0_blocks.load(") == 1 and kernel.kernel.count("tl.dot(") == 2


def test_batches_and_transposed_weights() -> None:
    def batches(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return torch.sigmoid(torch.bmm(x, a)) * torch.bmm(x, b)

    check(batches, random(3, 40, 24), random(3, 24, 56), random(3, 24, 56))
    check(lambda x, a, b: torch.tanh(x @ a) + x @ b.t(), random(40, 24), random(24, 56), random(56, 24))


def test_two_results() -> None:
    check(lambda x, a, b: (torch.relu(x @ a), (x @ b) * 2 + torch.relu(x @ a)), random(40, 64), random(64, 48), random(64, 48))


def chunked(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    value, gate = F.linear(x, w, b).chunk(2, -1)
    return F.gelu(gate) * value


@pytest.mark.parametrize("schedule", [SMALL_BLOCKS, JOINT, "triton{m=32 n=64 k=32 warps=4 stages=2 split=2}"])
def test_halves_of_one_weight(schedule: str) -> None:
    inputs = random(2, 20, 64), random(192, 64), random(192)
    _, simulated = run(chunked, *inputs, schedule=schedule)
    (kernel,) = simulated.printed.values()
    assert len(simulated.program.steps) == 1 and "(x2 + 6144)" in kernel.kernel
    check(chunked, *inputs, schedule=schedule)


@pytest.mark.parametrize(("m", "n", "k"), [(3, 127, 129), (65, 1, 40), (1, 40, 1000)])
def test_odd_halves(m: int, n: int, k: int) -> None:
    check(chunked, random(m, k), random(2 * n, k), random(2 * n))
    check(lambda x, w: torch.sigmoid((y := x @ w)[:, :n]) * y[:, n:], random(m, k), random(k, 2 * n))


def test_what_is_no_half() -> None:
    inputs = random(40, 64), random(64, 96)
    for fn in (lambda x, w: torch.relu((x @ w)[:, :40]), lambda x, w: (y := x @ w)[:, :32] * torch.relu(y[:, 32:64]) + y[:, 64:]):
        check(fn, *inputs)


OTHERS: dict[str, Callable[..., Tensor]] = {
    "other left factors": lambda x, y, a, b: (x @ a) * torch.relu(y @ b),
    "three products": lambda x, y, a, b: (x @ a) * torch.relu(x @ b) + torch.tanh(x @ (a + b)),
    "one is read elsewhere, too": lambda x, y, a, b: ((g := x @ a) * torch.relu(x @ b)) @ g.t(),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_pair(name: str) -> None:
    inputs = random(40, 64), random(40, 64), random(64, 48), random(64, 48)
    _, simulated = run(OTHERS[name], *inputs)
    assert all(k.kernel.count("tl.dot(") == 1 for k in simulated.printed.values())
    check(OTHERS[name], *inputs)


@pytest.mark.parametrize("config", list(PAIRS)[:8], ids=str)
def test_code(config: GemmConfig) -> None:
    """Pairs of sums fit into the registers, and descriptors feed the tensor cores."""
    gpu = Gpu.named("sm_90a")
    module, _ = tiled(swiglu, (random(256, 512), random(384, 512), random(384, 512)), products=str(config))
    (printed,) = triton_text.take(module, True)
    made = compile_kernel(printed, gpu)
    (needs,) = assemble(join([made.ptx]), "sm_90a").resources
    assert needs.spill_stores + needs.spill_loads == 0
    assert (f"wgmma.mma_async.sync.aligned.m64n{2 * config.n}k16" in made.ptx) == bool(config.joint)


@pytest.mark.parametrize("config", list(PAIRS)[2:5], ids=str)
def test_code_of_halves(config: GemmConfig) -> None:
    gpu = Gpu.named("sm_90a")
    module, _ = tiled(chunked, (random(256, 512), random(768, 512), random(768)), products=str(config))
    (printed,) = triton_text.take(module, True)
    made = compile_kernel(printed, gpu)
    (needs,) = assemble(join([made.ptx]), "sm_90a").resources
    assert needs.spill_stores + needs.spill_loads == 0
    assert (f"wgmma.mma_async.sync.aligned.m64n{2 * config.n}k16" in made.ptx) == bool(config.joint)


def test_schedules_fit() -> None:
    gpu = Gpu.named("sm_90a")
    for config in PAIRS:
        config.check()
        assert GemmConfig.read(str(config)) == config
    assert max(c.m for c in candidates(GemmWork(1, 16, 8192, 2048, products=2), gpu)) == 16
    assert all(candidates(GemmWork(1, m, n, k, products=2), gpu) for m in (1, 17, 4096) for n in (1, 300) for k in (2, 64))


def test_the_library_computes_both() -> None:
    module, program = tiled(swiglu, (random(8, 64), random(96, 64), random(96, 64)))
    assert not triton_text.take(module, True) and sum(isinstance(s, Call) for s in program.steps) == 2
