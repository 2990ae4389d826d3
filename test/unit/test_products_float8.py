"""Tests products of scaled eight-bit floats (torch._scaled_mm) with epilogues: in Triton's interpreter against float64, and
compiled to cubins."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from gpu_programs import Simulated, distribute, tiled
from problems import kernels_of, products
from test_tune_products import graph_level
from torch import Tensor
from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.program import Call
from lamina.schedules.contraction import GemmConfig
from lamina.schedules.product_cost import GemmWork, candidates
from lamina.targets.ptx import assemble
from lamina.targets.triton import text as triton_text
from lamina.targets.triton.compiler import compile_kernel, join

E4M3, BF16 = torch.float8_e4m3fn, torch.bfloat16
BLOCKS = "triton{m=32 n=32 k=32 warps=4 stages=2}"


def product(x: Tensor, w: Tensor, a: Tensor, b: Tensor, bias: Tensor | None = None, **given: Any) -> Tensor:
    """w: [n, k], as cuBLASLt reads it."""
    return torch._scaled_mm(x, w.t(), a, b, bias=bias, out_dtype=BF16, **given)


def exact(x: Tensor, w: Tensor, a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    out = (x.double() @ w.double().t()) * a.double() * b.double()
    return out if bias is None else out + bias.double()


def operands(m: int, n: int, k: int, rows: bool = False) -> list[Tensor]:
    scales = (torch.rand(m, 1), torch.rand(1, n)) if rows else (torch.tensor(0.3), torch.tensor([2.0]))
    return [torch.randn(m, k).to(E4M3), torch.randn(n, k).to(E4M3), *scales]


def check(fn: Callable[..., Tensor], inputs: Sequence[Tensor], want: Tensor, schedule: str = BLOCKS, **given: bool) -> None:
    module, program = tiled(fn, inputs, products=schedule)
    printed = triton_text.take(module, given.get("descriptors", True))
    assert printed and not any(isinstance(s, Call) for s in program.steps)
    distribute(module)
    (found,) = Simulated(module, program, printed)(*inputs)
    slack = 2.0**-3 if found.dtype == E4M3 else 2.0**-8
    assert found.shape == want.shape and (found.double() - want).norm() < slack * want.norm()


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("descriptors", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 64, 64), (33, 47, 144), (40, 1, 96)])
def test_sizes(m: int, n: int, k: int, descriptors: bool, rows: bool) -> None:
    inputs = operands(m, n, k, rows)
    check(product, inputs, exact(*inputs), descriptors=descriptors)


def test_what_follows() -> None:
    def chain(*given: Tensor) -> Tensor:
        return (torch.relu(product(*given)).float() * 4).clamp(-448, 448).to(E4M3)

    inputs = [*operands(40, 64, 96, True), torch.randn(64).to(BF16)]
    want = (exact(*inputs).relu() * 4).clamp(-448, 448)
    check(chain, inputs, want)
    check(chain, inputs, want, "triton{m=16 n=32 k=32 warps=4 stages=2 parts=3}")


def test_quantized_in_the_program() -> None:
    """Lamina kernels convert the factors to eight bits before the product."""

    def quantized(x: Tensor, w: Tensor) -> Tensor:
        a, b = (t.abs().amax().float() / 448 for t in (x, w))
        return product((x.float() / a).to(E4M3), (w.float() / b).to(E4M3), a, b)

    x, w = torch.randn(40, 96).to(BF16), torch.randn(56, 96).to(BF16)
    module, program = tiled(quantized, (x, w), products=BLOCKS)
    printed = triton_text.take(module, True)
    assert len(printed) == 1 and not any(isinstance(s, Call) for s in program.steps)
    distribute(module)
    (found,) = Simulated(module, program, printed)(x, w)
    want = x.double() @ w.double().t()
    assert (found.double() - want).norm() < 0.05 * want.norm()


def test_digits_of_sums() -> None:
    """Sums have f32's precision, unless the call allows less."""
    inputs = operands(32, 32, 64)
    for fast in (False, True):
        module, _ = tiled(lambda *t, fast=fast: product(*t, use_fast_accum=fast), inputs, products=BLOCKS)
        (kernel,) = triton_text.take(module, True)
        assert "max_num_imprecise_acc=32" in kernel.kernel, "the schedule does not ask for fewer"
    module, _ = tiled(lambda *t: product(*t, use_fast_accum=True), inputs, products=f"{BLOCKS[:-1]} fast=1}}")
    (kernel,) = triton_text.take(module, True)
    assert "max_num_imprecise_acc" not in kernel.kernel
    _, program = tiled(product, inputs, products=f"{BLOCKS[:-1]} fast=1}}")
    assert [type(s) for s in program.steps] == [Call]


@pytest.mark.parametrize("fast", [0, 1])
def test_code(fast: int) -> None:
    gpu = Gpu.named("sm_90a")
    work = GemmWork(1, 4096, 4096, 4096, 4, 0, 2 * 4096 * 4096, item=1, held_twice=not fast)
    schedule = str(replace(candidates(work, gpu)[0], fast=fast))
    module, _ = tiled(lambda *t: torch.relu(product(*t, use_fast_accum=True)), operands(512, 512, 256, True), products=schedule)
    (printed,) = triton_text.take(module, True)
    (needs,) = assemble(join([compile_kernel(printed, gpu).ptx]), "sm_90a").resources
    assert needs.spill_stores + needs.spill_loads == 0


@pytest.mark.parametrize(("name", "fast", "schedules"), [("sm_90a", True, 1), ("sm_90a", False, 0), ("sm_80", True, None)])
def test_candidates(name: str, fast: bool, schedules: int | None) -> None:
    """Candidates with less precise sums exist only if the call allows them; before sm_89 there are none. Unmeasured, the library
    is chosen."""
    module = graph_level(*operands(512, 512, 256), fn=lambda *t: torch.relu(product(*t, use_fast_accum=fast)))
    with module.context, ir.Location.unknown():
        (problem,) = products(module)
        found, default = kernels_of(problem, Gpu.named(name))
    assert not default and {GemmConfig.read(c).fast for c in found} == (set() if schedules is None else {schedules})
