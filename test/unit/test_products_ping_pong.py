"""Tests ping-pong products, which are kernels in Gluon: their text, compiled to cubins, and in a simulator against float64."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import tiled
from test_products import check, random
from torch import Tensor

from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.core.program import Launch
from lamina.core.program_needs import with_needs
from lamina.schedules.contraction import GemmConfig
from lamina.schedules.product_cost import GemmWork, candidates, lamina_seconds
from lamina.targets.ptx import assemble
from lamina.targets.triton import text as triton_text
from lamina.targets.triton.compiler import compile_kernel, for_gpu, join
from lamina.targets.triton.printing.printed import Printed

TURNS = GemmConfig(128, 128, 64, 4, 5, 8, 1, ping_pong=1)
PAIR = "triton{m=128 n=64 k=64 warps=4 stages=5 resident=1 ping_pong=1}"


def printed(fn: Callable[..., Any], *inputs: Tensor, schedule: str = str(TURNS)) -> Printed:
    module, _ = tiled(fn, inputs, products=schedule)
    return triton_text.take(module, True)[0]


def gated_gradients(x: Tensor, w: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the gradients of a gated unit and its result, from x @ w, the gradient of its result."""
    return torch.ops.aten.silu_backward(x @ w * up, gate), (x @ w) * F.silu(gate), F.silu(gate) * up


def gelu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.gelu(F.linear(x, w, b))


def test_roles() -> None:
    """One warp loads, and two groups of warps multiply every other block each; results are stored by a descriptor."""
    kernel = printed(gelu, random(1024, 256), random(4096, 256), random(4096))
    erf, loads, multiplies, whole = kernel.kernel.split("@gluon.jit")[1:]
    assert "def addmm_mul_erf_to_copy_add_erf_gelu(x)" in erf and "tl.exp2" in erf
    assert (
        "range(tl.program_id(0), 256, 132)" in loads
        and loads.count(" load(") == 2
        and "expect(filled.index(stage), 32768)" in loads
    )
    assert "range(tl.program_id(0) + turn * 132, 256, 264)" in multiplies and "stage_of((2 * done + turn) * 4, 5)" in multiplies
    assert "store(y0_blocks, " in multiplies and "tl.store" not in multiplies and "load(x0 + " in multiplies
    assert "[5, 128, 64]" in whole and "[2, 128, 128]" in whole and "], [4, 1], [240, 24])" in whole


def test_launch() -> None:
    _, program = tiled(gelu, (random(1024, 256), random(4096, 256), random(4096)), products=str(TURNS))
    (step,) = program.steps
    assert (step.threads, step.grid) == (384, 132)


def swiglu(x: Tensor, gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(F.linear(x, gate)) * F.linear(x, up)


def test_pairs_are_one_product_where_they_lie_alike() -> None:
    alike = printed(swiglu, random(256, 128), random(512, 128), random(512, 128), schedule=PAIR)
    assert alike.kernel.count("warpgroup_mma(") == 1 and ".slice(64, 64, 0)" in alike.kernel and "halves(acc)" in alike.kernel
    weights = random(128, 512), random(128, 512)
    columns, narrow = (
        printed(lambda x, a, b: torch.relu(x @ a) * (x @ b), random(256, 128), *weights, schedule=schedule)
        for schedule in (PAIR, PAIR.replace("n=64", "n=32"))
    )
    assert columns.kernel.count("warpgroup_mma(") == 1 and ".slice(64, 64, 1)" in columns.kernel
    assert narrow.kernel.count("warpgroup_mma(") == 2 and "warpgroup_mma_wait(2, deps=(acc, acc1,))" in narrow.kernel


def test_stages_that_there_is_room_for() -> None:
    wide = printed(lambda x, w: (x @ w).float() * 2, random(256, 128), random(128, 512))
    assert "tile0 = gl.allocate_shared_memory(tl.float32, [2, 128, 128]" in wide.kernel and "[3, 128, 64]" in wide.kernel
    assert "barriers(3)" in wide.kernel and "stage_of((2 * done + turn) * 2, 3)" in wide.kernel


def residual(x: Tensor, w: Tensor, b: Tensor, r: Tensor) -> Tensor:
    return F.layer_norm(F.linear(x, w, b) + r, (w.shape[0],))


@pytest.mark.parametrize(
    ("fn", "shapes"),
    [
        (gelu, ((637, 24), (216, 24), (216,))),  # 140 blocks of 132 CTAs
        (swiglu, ((100, 72), (40, 72), (40, 72))),
        (lambda x, a, b: torch.tanh(x @ a) * (x @ b), ((100, 72), (72, 40), (72, 40))),
        (residual, ((70, 72), (45, 72), (45,), (70, 45))),
        (lambda a, b: torch.relu(torch.bmm(a.mT, b)), ((2, 40, 72), (2, 40, 24))),
        (lambda x, w: ((y := x @ w), y.float() + 1), ((70, 40), (40, 24))),
        (gated_gradients, ((200, 72), (72, 80), (200, 80), (200, 80))),
    ],
)
def test_simulated(fn: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]) -> None:
    split = " split=4" if fn is gated_gradients else ""
    schedule = f"triton{{m=64 n={64 if split else 16} k=16 warps=4 stages=2 resident=1{split} ping_pong=1}}"
    done = check(fn, *(random(*shape) for shape in shapes), schedule=schedule)
    assert any(kernel.imports for kernel in done.printed.values())


CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], str]] = {
    "gelu": (gelu, ((1000, 328), (1048, 328), (1048,)), str(TURNS)),
    "pair": (swiglu, ((1000, 328), (1048, 328), (1048, 328)), PAIR),
    "batches, of columns, in parts": (
        lambda a, b: torch.tanh(torch.bmm(a.mT, b)), ((4, 256, 512), (4, 256, 512)), str(replace(TURNS, split=2)),
    ),
    "gated gradients, in parts": (gated_gradients, ((1000, 320), (320, 1048), *[(1000, 1048)] * 2), str(replace(TURNS, split=4))),
    "norm": (lambda x, w, r: F.layer_norm(F.linear(x, w) + r, (768,)), ((1000, 320), (768, 320), (1000, 768)), str(TURNS)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_code(name: str) -> None:
    """Descriptors feed the tensor cores, the multiplying warps get the registers, and nothing spills."""
    fn, shapes, schedule = CASES[name]
    gpu = Gpu.named("sm_90a")
    made = compile_kernel(printed(fn, *(random(*shape) for shape in shapes), schedule=schedule), gpu)
    (found,) = assemble(join([made.ptx]), "sm_90a").resources
    assert found.spill_stores + found.spill_loads == 0 and made.needs.shared <= gpu.shared_bytes
    for text in ("wgmma.mma_async", "cp.async.bulk.tensor", "setmaxnreg.inc.sync.aligned.u32 \t240"):
        assert text in made.ptx, text


@pytest.mark.parametrize(
    ("fn", "inner", "schedule", "why"),
    [
        (lambda x, w: x.float().exp().bfloat16() @ w, 128, f"prologue {TURNS}", "more than multiply"),
        (lambda x, w: x[:, 1:129] @ w[:128], 136, str(TURNS), "no descriptor"),  # rows begin between accesses
        (torch.mm, 128, str(replace(TURNS, k=512)), "shared memory"),
        (torch.mm, 128, str(replace(TURNS, n=256, stages=2)), "registers"),
    ],
)
def test_refused(fn: Callable[..., Any], inner: int, schedule: str, why: str) -> None:
    """Work that the schedule cannot compute uses a kernel in Triton's own language."""
    kernel = printed(fn, random(256, inner), random(inner, 256), schedule=schedule)
    assert re.match(f"# No ping-pong: .*{why}.*\n@triton.jit", kernel.kernel) and not kernel.config.ping_pong and kernel.note


def test_what_gluon_refuses(caplog: pytest.LogCaptureFixture) -> None:
    """The CTA then has fewer threads than the launch was planned with; explain shows that in the launch's name."""
    gpu = Gpu.named("sm_90a")
    module, program = tiled(gelu, (random(256, 64), random(512, 64), random(512)), products=str(TURNS))
    (kernel,) = triton_text.take(module, True)
    assert kernel.otherwise is not None and compile_kernel(kernel, gpu).needs.threads == 384
    refused = replace(kernel, kernel=kernel.kernel.replace("barriers(2)", "barriers(2.5)"))
    large = replace(kernel, kernel=kernel.kernel.replace("[2, 128, 128]", "[8, 128, 128]"))
    for other, on in ((refused, gpu), (large, gpu), (kernel, Gpu.named("sm_80"))):
        made = compile_kernel(other, on)
        assert made.needs.threads == 128 and "setmaxnreg" not in made.ptx and ".reqntid 128" in made.ptx
        (step,) = with_needs(program, {kernel.name: made.needs}).steps
        assert isinstance(step, Launch) and step.threads == 128 and step.name.endswith(" (no ping-pong)")
    assert [r.getMessage().partition(":")[0] for r in caplog.records] == ["lamina"] * 2 and "shared memory" in caplog.text
    assert for_gpu(kernel, gpu) is kernel and for_gpu(kernel, Gpu.named("sm_80")).kernel.startswith("# No ping-pong: sm_80")


GELU, ROWS = 21, 8192  # operations, rows
MEASURED = [  # us on an H200 whose power held the library's product of 8192 x 4096 by 4096 x 4096 to 657 TFLOP/s
    (GemmWork(1, ROWS, 3072, 768, GELU, 6144, ROWS * 3072 * 2), 68.9),
    (GemmWork(1, ROWS, 4096, 4096, GELU, 8192, ROWS * 4096 * 2), 429.1),
    (GemmWork(1, ROWS, 768, 3072, 2, ROWS * 768 * 2, ROWS * 768 * 2), 65.4),
    (GemmWork(1, ROWS, 8192, 2048, 8, 0, ROWS * 8192 * 2, products=2), 796.4),
]
RESULT = 4096 * 2816 * 2  # bytes
EPILOGUES = [  # us of parts of a block, with epilogues that read and write several matrices
    (GemmWork(1, 4096, 2816, 1024, 1, RESULT, RESULT), 2, 42.0),
    (GemmWork(1, 4096, 2816, 1024, 14, 2 * RESULT, 2 * RESULT), 4, 65.6),
    (GemmWork(1, 4096, 2816, 1024, 14, 2 * RESULT, 3 * RESULT), 4, 81.8),
    (GemmWork(1, 4096, 2816, 1024, 14, 2 * RESULT, 3 * RESULT), 2, 111.6),
]


@pytest.mark.parametrize(("work", "measured"), MEASURED)
def test_cost_model(work: GemmWork, measured: float) -> None:
    found = candidates(work, Gpu.named("sm_90a"))
    best = next(c for c in found if c.ping_pong)
    if (
        work.products == 1 and work.n < 4096
    ):  # of 4096 columns, plain tiles took 414 us; of pairs, blocks of 128 x 128 were ahead on an H100
        assert found[0] == best
    assert lamina_seconds(best, work, Gpu.named("sm_90a")) * 1e6 == pytest.approx(measured, rel=0.15)
    for other in (Gpu.named("sm_80"), Gpu.named("sm_100a")):
        assert not any(c.ping_pong for c in candidates(work, other))
    assert not any(c.ping_pong for c in candidates(replace(work, item=4), Gpu.named("sm_90a")))


WIDE = GemmWork(1, 4096, 2816, 1024, 14, 2 * RESULT, 3 * RESULT)


@pytest.mark.parametrize(
    ("work", "columns", "split", "measured"),
    [*((work, 128, split, measured) for work, split, measured in EPILOGUES), (WIDE, 256, 2, 80.4), (WIDE, 256, 4, 73.7)],
)
def test_cost_of_epilogues(work: GemmWork, columns: int, split: int, measured: float) -> None:
    """Blocks of 128 columns take turns (ping-pong)."""
    gpu = Gpu.named("sm_90a")
    config = next(c for c in candidates(work, gpu) if c.n == columns and c.split == split and c.ping_pong == (columns == 128))
    assert lamina_seconds(config, work, gpu) * 1e6 == pytest.approx(measured, rel=0.15)


def test_schedules() -> None:
    for wrong in ("warps=8", "m=32", "stages=1", "descriptors=0"):
        with pytest.raises(CompileError, match="ping_pong=1"):
            GemmConfig.read(f"triton{{{wrong} ping_pong=1}}")
    assert TURNS.threads == 384 and TURNS.plain.threads == 128
