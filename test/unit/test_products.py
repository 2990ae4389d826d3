"""Tests matrix products with epilogues as Triton kernels: in Triton's interpreter against float64, and compiled to cubins."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import Simulated, distribute, tiled
from torch import Tensor
from triton_interpreter import call_function

from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.core.program import Call
from lamina.core.target import Target
from lamina.schedules.contraction import GemmConfig
from lamina.schedules.product_cost import SCHEDULES, GemmWork, candidates, default_schedule, lamina_seconds, library_seconds
from lamina.targets.nvvm.backend import NvvmBackend
from lamina.targets.ptx import assemble, ptxas
from lamina.targets.triton import text as triton_text
from lamina.targets.triton.compiler import compile_kernel, join

BF16, F16 = torch.bfloat16, torch.float16
SMALL_BLOCKS = "triton{m=32 n=32 k=32 warps=4 stages=2}"


def random(*shape: int, dtype: torch.dtype = BF16) -> Tensor:
    return torch.randn(*shape).to(dtype)


def run(
    fn: Callable[..., Any], *inputs: Tensor, schedule: str = SMALL_BLOCKS, descriptors: bool = True
) -> tuple[list[Tensor], Simulated]:
    module, program = tiled(fn, inputs, products=schedule)
    printed = triton_text.take(module, descriptors)
    assert printed, "no product is ours"
    distribute(module)
    simulated = Simulated(module, program, printed)
    return simulated(*inputs), simulated


def check(fn: Callable[..., Any], *inputs: Tensor, calls: int = 0, **given: Any) -> Simulated:
    """Against float64, with what eager rounds stored values by; and no more calls of libraries than `calls`. What ran."""
    found, simulated = run(fn, *inputs, **given)
    want = fn(*(x.double() if x.is_floating_point() else x for x in inputs))
    eager = fn(*inputs)
    for mine, w, e in zip(found, *((v if isinstance(v, tuple) else (v,)) for v in (want, eager)), strict=True):
        assert mine.shape == w.shape and mine.dtype == e.dtype
        theirs = (e.double() - w).norm()
        assert (mine.double() - w).norm() <= 1.5 * theirs + 1e-5 * w.norm()
    assert sum(isinstance(s, Call) for s in simulated.program.steps) == calls
    return simulated


@pytest.mark.parametrize("descriptors", [True, False])
@pytest.mark.parametrize(("m", "n", "k"), [(32, 32, 32), (1, 64, 64), (3, 127, 129), (65, 1, 40), (127, 40, 1000), (64, 96, 2)])
def test_sizes(m: int, n: int, k: int, descriptors: bool) -> None:
    check(torch.mm, random(m, k), random(k, n), descriptors=descriptors)


@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("a_across", [False, True])
@pytest.mark.parametrize("b_across", [False, True])
def test_transposed(a_across: bool, b_across: bool, dtype: torch.dtype) -> None:
    def lay(x: Tensor, across: bool) -> Tensor:
        return x.t().contiguous().t() if across else x

    check(torch.mm, lay(random(72, 48, dtype=dtype), a_across), lay(random(48, 40, dtype=dtype), b_across))


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "leaky": lambda x: F.leaky_relu(x, 0.1),
    "float": lambda x: x.float() * 2,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    check(lambda b, x, w: ACTIVATIONS[name](torch.addmm(b, x, w.t())), random(48), random(40, 64), random(48, 64))


@pytest.mark.parametrize(
    ("activation", "called"),
    [
        (F.gelu, ["erf_gelu"]),
        (lambda x: 0.5 * x * (1.0 + torch.erf(x * 0.5**0.5)), ["erf_gelu"]),
        (ACTIVATIONS["gelu_tanh"], []),
        (lambda x: x * torch.erf(x * 0.5**0.5), ["erf"]),
        (lambda x: 0.5 * x * (1.0 + torch.erf(x * 0.7)), ["erf_beside_one"]),
        (lambda x: F.gelu(x) + torch.erf(x * 0.5**0.5), ["erf"]),
    ],
)
def test_activations_as_functions(activation: Callable[[Tensor], Tensor], called: list[str]) -> None:
    """A shorter function is called where adding 1 loses the digits that it leaves out."""
    module, _ = tiled(lambda x, w: activation((x @ w).float()), (random(40, 64), random(64, 48)), products=SMALL_BLOCKS)
    (printed,) = triton_text.take(module, True)
    assert list(printed.calls) == called


@pytest.mark.parametrize("arch", ["sm_86", "sm_120a"])
def test_no_more_shared_memory_than_there_is(arch: str) -> None:
    """The schedule chosen unmeasured for a GELU after 8192 x 768 by 768 x 3072 needed 5 KiB more than an RTX 5090 has."""
    gpu, work = Gpu.named(arch), GemmWork(1, 8192, 3072, 768, ops=40, writes=8192 * 3072 * 2)
    chosen = candidates(work, gpu)[0]
    module, _ = tiled(lambda x, w: F.gelu(x @ w), (torch.empty(512, 768).bfloat16(), random(768, 768)), products=str(chosen))
    (printed,) = triton_text.take(module, gpu.capability >= 90)
    assert compile_kernel(printed, gpu).needs.shared <= gpu.shared_bytes


def test_large_numbers() -> None:
    """64-bit integers, which Triton would take for 32-bit ones."""
    fn, x, w = lambda x, w: torch.where(x @ w > 0, 100000, 1) * 100000, random(40, 64), torch.eye(64, 48, dtype=BF16)
    assert torch.equal(run(fn, x, w)[0][0], fn(x, w))


def test_residual_of_three_dimensions() -> None:
    def block(x: Tensor, w: Tensor, b: Tensor, r: Tensor) -> Tensor:
        return F.linear(x, w, b) * 0.5 + r

    check(block, random(2, 20, 64), random(48, 64), random(48), random(2, 20, 48))


def test_several_results() -> None:
    check(lambda x, w: ((y := x @ w), torch.relu(y)), random(40, 64), random(64, 48))


def test_batches() -> None:
    check(lambda a, b: torch.relu(torch.bmm(a, b)), random(3, 40, 24), random(3, 24, 56))
    check(lambda a, b: torch.bmm(a, b.transpose(1, 2)), random(3, 40, 24), random(3, 56, 24))
    check(lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5, alpha=2), random(3, 40, 56), random(3, 40, 24), random(3, 24, 56))


@pytest.mark.parametrize("shape", [(48,), (1, 48), (40, 1), (40, 48), (1,)])
def test_what_is_added(shape: tuple[int, ...]) -> None:
    check(lambda c, x, w: torch.addmm(c, x, w, beta=0.5, alpha=2), random(*shape), random(40, 64), random(64, 48))


def test_scales_of_rows_and_masks() -> None:
    def scaled(x: Tensor, w: Tensor, s: Tensor, keep: Tensor) -> Tensor:
        return torch.where(keep, (x @ w) * s[:, None], 0)

    check(scaled, random(40, 64), random(64, 48), torch.rand(40), torch.rand(40, 48) > 0.5)


def test_nan_and_infinity_go_through() -> None:
    x, w = random(32, 32), random(32, 32)
    x[3, 5], x[7, 2] = float("nan"), float("inf")
    (found,), _ = run(lambda x, w: torch.relu(x @ w), x, w)
    want = torch.relu(x.float() @ w.float())
    assert torch.equal(found.isnan(), want.isnan()) and torch.equal(found.isinf(), want.isinf())


def test_walked_over_by_fewer_ctas() -> None:
    check(torch.mm, random(600, 32), random(32, 800), schedule="triton{m=32 n=32 k=32 warps=4 stages=2 group=3 resident=1}")


@pytest.mark.parametrize("split", [2, 4])
def test_epilogues_in_parts(split: int) -> None:
    def block(x: Tensor, w: Tensor, b: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        y = F.gelu(F.linear(x, w, b))
        return y, y + r

    schedule = f"triton{{m=32 n=64 k=32 warps=4 stages=2 split={split}}}"
    check(block, random(40, 64), random(100, 64), random(100), random(40, 100), schedule=schedule)


def test_products_of_f32_stay_calls() -> None:
    module, program = tiled(torch.mm, (random(40, 64).float(), random(64, 48).float()), products=SMALL_BLOCKS)
    assert not triton_text.take(module, True) and isinstance(program.steps[0], Call)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("config", [list(SCHEDULES)[i] for i in (0, 1, 8, 14)], ids=str)
def test_code(config: GemmConfig, arch: str) -> None:
    """Schedules compile without spills, for tensor cores with operands from descriptors where the GPU has them."""
    gpu = Gpu.named(arch)
    inputs = random(512, 256), random(512, 256), random(512)
    module, _ = tiled(lambda x, w, b: F.relu(F.linear(x, w, b)), inputs, products=str(config))
    (printed,) = triton_text.take(module, gpu.capability >= 90)
    made = compile_kernel(printed, gpu)
    (needs,) = assemble(join([made.ptx]), arch).resources
    assert needs.spill_stores + needs.spill_loads <= (0 if arch == "sm_90a" else 8)  # a register more than an A100's thread has
    assert ("wgmma" if arch == "sm_90a" and config.m >= 64 else "mma.sync") in made.ptx
    assert (made.needs.scratch > 0) == (arch == "sm_90a" and config.descriptors == 1)


def test_two_kernels_in_one_program() -> None:
    """Each contains definitions with the same names."""

    def model(x: Tensor, w: Tensor, b: Tensor, v: Tensor, c: Tensor) -> Tensor:
        return F.gelu(F.linear(F.gelu(F.linear(x, w, b)), v, c))

    inputs = random(256, 128), random(192, 128), random(192), random(64, 192), random(64)
    module, program = tiled(model, inputs, products="triton{m=64 n=64 k=64}")
    artifact = NvvmBackend(Target.parse("nvvm:sm_90a")).compile(module)
    assert len(artifact.kernels) == len(program.steps) == 2 and set(artifact.needs) == set(artifact.kernels)


def test_a_newer_assembler_of_triton(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TorchInductor has Triton use the CUDA toolkit's ptxas, which may read newer PTX than Lamina's."""
    newer = tmp_path / "ptxas"
    newer.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "Cuda compilation tools, release 13.0, V13.0.1" && exit\nexec {ptxas("sm_90a")} "$@"\n'
    )
    newer.chmod(0o755)
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(newer))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    inputs = random(96, 48), random(48, 80)
    module, _ = tiled(torch.mm, inputs, products=SMALL_BLOCKS)
    assert NvvmBackend(Target.parse("nvvm:sm_90a")).compile(module).code


def test_schedules_as_text() -> None:
    for config in SCHEDULES:
        config.check()
        assert GemmConfig.read(str(config)) == config
    for wrong in (
        "triton{m=100}",
        "triton{size=3}",
        "triton{m=x}",
        "cublas",
        "triton{warps=3}",
        "triton{stages=0}",
        "triton{split=3}",
    ):
        with pytest.raises(CompileError):
            GemmConfig.read(wrong)


def test_candidates_fit() -> None:
    gpu = Gpu.named("sm_90a")
    assert candidates(GemmWork(1, 8192, 4096, 4096), gpu)[0].m == 128
    assert max(c.m for c in candidates(GemmWork(1, 16, 3072, 768), gpu)) <= 16
    assert all(candidates(GemmWork(1, m, n, k), gpu) for m in (1, 17, 4096) for n in (1, 300) for k in (2, 64))


GELU = 21  # operations
MEASURED = [  # us on an H200: what follows, the library with a Lamina kernel, the best of our schedules
    (GemmWork(1, 8192, 3072, 768, GELU, 6144, 8192 * 3072 * 2), 90.6, 79.8),
    (GemmWork(1, 6304, 3072, 768, GELU, 6144, 6304 * 3072 * 2), 72.7, 65.5),
    (GemmWork(1, 128, 3072, 768, GELU, 6144, 128 * 3072 * 2), 10.4, 9.2),
    (GemmWork(1, 32, 3072, 768, GELU, 6144, 32 * 3072 * 2), 9.8, 8.4),
    (GemmWork(1, 8192, 4096, 4096, GELU, 8192, 8192 * 4096 * 2), 380.0, 413.8),
    (GemmWork(1, 8192, 16384, 4096, 2, 32768, 8192 * 16384 * 2), 1546.5, 1620.1),
    (GemmWork(1, 8192, 768, 768, 2, 8192 * 768 * 2, 8192 * 768 * 2), 30.8, 30.6),
    (GemmWork(1, 8192, 4096, 4096, 2, 8192 * 4096 * 2, 8192 * 4096 * 2), 391.1, 383.2),
]


@pytest.mark.parametrize(("work", "library", "ours"), MEASURED)
def test_cost_model(work: GemmWork, library: float, ours: float) -> None:
    """Estimates are within a fifth of the measured times, and the library is chosen if Lamina is slower or less than a tenth
    faster."""
    gpu = Gpu.named("sm_90a")
    best = next(c for c in candidates(work, gpu) if not c.ping_pong)
    assert library_seconds(work, gpu) * 1e6 == pytest.approx(library, rel=0.2)
    assert lamina_seconds(best, work, gpu) * 1e6 == pytest.approx(ours, rel=0.2)
    if not 0.9 * library < ours < library:
        assert (default_schedule(work, gpu) is not None) == (ours < library)
    assert default_schedule(work, Gpu.named("sm_80")) is None


@pytest.mark.parametrize(("name", "bound"), [("erf", 2.5e-7), ("tanh", 5e-7), ("erf_beside_one", 1.3e-7)])
def test_math(name: str, bound: float) -> None:
    """Errors are relative, except that of erf_beside_one, which is absolute."""
    x = torch.cat([torch.linspace(-6, 6, 4096), torch.tensor([0.0, -0.0, 1e-30, torch.inf, -torch.inf, torch.nan])])
    found = call_function(name, x)
    want = getattr(torch, name.partition("_")[0])(x.double())
    scale = 1 if "beside" in name else want.abs().clamp_min(1e-30)
    wrong = ((found.double() - want) / scale).abs()
    assert found[-1].isnan() and wrong[:-1].max() < bound


def test_gelu_as_one_function() -> None:
    """It is more accurate below zero than the formula in float32, where 1 + erf(x) cancels; at -inf it gives the limit."""
    x = torch.cat([torch.linspace(-9, 9, 20001), torch.tensor([0.0, -0.0, 1e-30, 3e38, torch.inf, -torch.inf, torch.nan])])
    found = call_function("erf_gelu", x).double()
    want = x.double() * torch.special.ndtr(x.double())
    wrong = (found - want).abs()[:-3]
    assert (wrong <= 3e-7 * (1 + x.double().abs())[:-3]).all()
    middle = (x[:-3] > -6) & (x[:-3] != 0)
    assert (wrong / want.abs()[:-3].clamp_min(1e-45))[middle].max() < 1e-3
    assert found[-3] == torch.inf and found[-2].abs() < 1e-30 and found[-1].isnan()
