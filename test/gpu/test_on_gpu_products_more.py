"""Compares products whose inner dimension is split into parts, of eight-bit floats, and of groups, whatever tuning would choose,
with float64."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import tiled
from test_on_gpu_products import on_gpu
from torch import Tensor

import lamina
from lamina.core.gpu import Gpu
from lamina.core.program_needs import with_needs
from lamina.core.target import Target
from lamina.passes.families.grouped_products import SCHEDULES
from lamina.runtime.executable import Executable
from lamina.targets.kernel_calls.user import take
from lamina.targets.nvvm.backend import NvvmBackend

PARTS = ("triton{m=16 n=64 k=128 warps=4 stages=5 descriptors=0 parts=4}", "triton{m=64 n=64 k=64 warps=4 stages=4 parts=8}")
FLOAT8 = ("triton{m=128 n=128 k=128 warps=8 stages=4}", "triton{m=64 n=64 k=128 warps=4 stages=4 descriptors=0}")
FUNCTIONS: dict[str, tuple[Callable[..., Tensor], int]] = {  # and how many weights they have
    "product": (lambda x, w: x @ w, 1),
    "pair": (lambda x, a, b: F.silu(x @ a) * (x @ b), 2),
    "softmax": (lambda x, w: torch.softmax((x @ w).float(), 1), 1),
}


@pytest.mark.parametrize("schedule", PARTS)
@pytest.mark.parametrize("m", [1, 100])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_parts(name: str, m: int, schedule: str) -> None:
    (fn, weights), (n, k) = FUNCTIONS[name], (520, 4096)
    inputs = [torch.randn(m, k, device="cuda", dtype=torch.bfloat16)]
    inputs += [torch.randn(k, n, device="cuda", dtype=torch.bfloat16) * k**-0.5 for _ in range(weights)]
    found, want = on_gpu(fn, inputs, schedule), fn(*(x.double() for x in inputs))
    assert (found.double() - want).norm() < 5e-3 * want.norm()
    assert torch.equal(found, on_gpu(fn, inputs, schedule))


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("schedule", FLOAT8)
def test_scaled(schedule: str, rows: bool, fast: bool) -> None:
    def chain(x: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return torch.relu(torch._scaled_mm(x, w.t(), a, b, out_dtype=torch.bfloat16, use_fast_accum=fast))

    m, n, k = 1000, 528, 2048
    x, w = (torch.randn(size, k, device="cuda").to(torch.float8_e4m3fn) for size in (m, n))
    a, b = (torch.rand(shape, device="cuda") for shape in (((m, 1), (1, n)) if rows else ((), ())))
    found = on_gpu(chain, [x, w, a, b], f"{schedule[:-1]} fast={int(fast)}}}")
    want = ((x.double() @ w.double().t()) * a.double() * b.double()).relu()
    assert (found.double() - want).norm() < 5e-3 * want.norm()


def test_conversions_to_eight_bits() -> None:
    """Lamina's kernels and eager give the same bits, and read them as the same numbers."""

    def convert(x: Tensor) -> list[Tensor]:
        return [(y := x.clamp(-448, 448)).to(torch.float8_e4m3fn), y.to(torch.float8_e5m2), y.to(torch.float8_e4m3fn).float() + 1]

    x = torch.randn(100_000, device="cuda") * 10 ** torch.linspace(-4, 4, 100_000, device="cuda")
    run = lamina.compile(lambda x: convert(x), (x,), options={"strict": True})
    for found, want in zip(run(x), convert(x), strict=True):
        assert torch.equal(found.float(), want.float())


def expert(x: Tensor, w: Tensor, ends: Tensor) -> Tensor:
    return F.silu(torch._grouped_mm(x, w, ends))


def by_schedule(schedule: str, *inputs: Tensor) -> Tensor:
    """The expert by a kernel of groups, traced on the CPU."""
    gpu = Gpu.named("sm_90a")
    module, program = tiled(expert, [t.cpu() for t in inputs], products=schedule)
    program, ready = take(program, (), gpu)
    artifact = NvvmBackend(Target("nvvm", gpu)).compile(module, ready)
    run = Executable(with_needs(program, artifact.needs), artifact)
    run.load(0)
    (found,) = run(*inputs)
    return found


@pytest.mark.parametrize("schedule", [str(s) for s in SCHEDULES])
def test_groups(schedule: str) -> None:
    """With no rows, one, and many; each matrix is transposed in memory."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("schedules here are for sm_90")
    ends = torch.tensor([0, 1, 300, 300, 700, 1000], device="cuda", dtype=torch.int32)
    x, w = (torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in ((1000, 512), (6, 264, 512)))
    found = by_schedule(schedule, x, w.mT, ends)
    rows = zip([0, *ends.tolist()[:-1]], ends.tolist(), strict=True)
    want = F.silu(torch.cat([x[a:b].double() @ w[g].double().T for g, (a, b) in enumerate(rows)]))
    assert (found.double() - want).norm() < 5e-3 * want.norm()
