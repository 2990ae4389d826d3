"""Tests tile programs without products as Triton kernels: by Triton's interpreter against float64, and compiled to cubins."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import Simulated, tiled
from torch import Tensor

from lamina.core.errors import CompileError
from lamina.core.target import Target
from lamina.targets import backend
from lamina.targets.triton import text as triton_text

BF16, F64 = torch.bfloat16, torch.float64
PASS = "lamina-route-to-triton"


def r(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape).to(dtype)


CASES: dict[str, tuple[Callable[..., Any], list[Tensor]]] = {
    "one": (lambda a: a.exp() + 1, [r(1)]),
    "odd": (lambda a, b: a * b + 0.5, [r(127, 3), r(3)]),
    "math": (lambda a: F.gelu(a) + a.abs() ** 1.5 + torch.atan2(a, a + 1) + torch.round(a) + torch.tan(a), [r(1000)]),
    "doubles": (lambda a: torch.tanh(a) * 0.1 + torch.erf(a) * a.sum(-1, keepdim=True), [r(7, 130, dtype=F64)]),
    "numbers of 64 bits": (lambda a: (torch.where(a > 0, 0.1, 0.7), torch.where(a > 0, 100000, 1) * 100000), [r(100, dtype=F64)]),
    "remainders": (lambda a, b: torch.remainder(a, b) + torch.fmod(a, b), [r(100) * 9, torch.rand(100) + 0.5]),
    "bools": (lambda a, b: (a > 0) & b, [r(1000), torch.rand(1000) > 0.5]),
    "bytes": (
        lambda a: (a.float() / 255, a > 200, a >> 3, (a.float() * 2).to(torch.uint8)),
        [torch.randint(0, 256, (999,)).byte()],
    ),
    "reductions": (lambda a: (a.amax(0), a.amin(1), a.prod(1), (a > 0).all(1), a.sum(0), a.argmax(1)), [r(40, 30)]),
    "softmax": (lambda a: torch.softmax(a, -1), [r(3, 1000, dtype=BF16)]),
    "softmax of three accesses": (lambda a: torch.softmax(a, -1), [r(2, 3072)]),
    "norm": (lambda a, b, w, c: F.layer_norm(a + b, w.shape, w, c), [r(5, 1000), r(5, 1000), r(1000), r(1000)]),
    "long rows, online": (lambda a: torch.log_softmax(a, -1), [r(1, 40000, dtype=BF16)]),
    "scan": (lambda a: a.cumsum(-1), [r(5, 300)]),
    "sort": (lambda a: tuple(a.sort(-1)), [r(5, 300)]),
    "extrema so far": (lambda a: (*a.cummax(-1), *a.cummin(0)), [r(5, 300)]),
    "recurrence": (lambda a: torch.logcumsumexp(a, -1), [r(5, 300)]),
    "transposed": (lambda a, b: torch.relu(a.t() + b), [r(96, 70), r(70, 96)]),
    "gather": (lambda a, i: a[i] * 2, [r(64, 10), torch.randint(-64, 64, (100,))]),
    "triangle": (lambda a: torch.tril(a), [r(50, 50)]),
    "images": (lambda a: F.max_pool2d(a, 3, 2, 1), [r(2, 3, 9, 11)]),
    "columns cut out": (lambda a: a + 1, [r(40, 70)[:, 3:50]]),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    fn, inputs = CASES[name]
    module, program = tiled(fn, inputs, last=PASS)
    found = Simulated(module, program, triton_text.take(module, descriptors=True))(*inputs)
    exact, eager = (_listed(fn(*given)) for given in ([a.double() if a.is_floating_point() else a for a in inputs], inputs))
    assert len(found) == len(exact)
    for ours, theirs, wanted in zip(found, eager, exact, strict=True):
        assert ours.dtype == theirs.dtype
        bound = {BF16: 1e-2, torch.float32: 1e-5}.get(ours.dtype, 1e-9)
        torch.testing.assert_close(ours.double(), wanted.double(), rtol=bound, atol=bound)


def test_parts_of_large_memory() -> None:
    """Program indices need 64 bits if offsets do, also in joined launches."""
    many, few = torch.empty(200, 1 << 24, dtype=torch.int8), torch.ones(200, 40, dtype=torch.int8)
    module, _ = tiled(lambda a, b: (a[:, :40] + 1, b * 2), [many, few], last=PASS)
    (kernel,) = triton_text.take(module, descriptors=True)
    assert "program = tl.program_id(0).to(tl.int64)" in kernel.text


def test_no_number_stays_none() -> None:
    a = torch.tensor([[1.0, float("nan"), 3.0], [float("-inf")] * 3])
    module, program = tiled(lambda x: (x.amax(-1), torch.softmax(x, -1)), [a], last=PASS)
    most, soft = Simulated(module, program, triton_text.take(module, descriptors=True))(a)
    torch.testing.assert_close(most, a.amax(-1), equal_nan=True)
    torch.testing.assert_close(soft, torch.softmax(a, -1), equal_nan=True)


def test_random_numbers_are_those_of_other_targets() -> None:
    def dropped(a: Tensor) -> Tensor:
        return F.dropout(a, 0.4, True)

    x = torch.ones(1000)
    results = []
    for last in (PASS, ""):
        torch.manual_seed(1)
        module, program = tiled(dropped, [x], last=last)
        run = Simulated(module, program, triton_text.take(module, descriptors=True))
        results.append(_with_distribution(run, module, x) if not last else run(x)[0])
    assert torch.equal(*results) and 0.5 < (results[0] > 0).float().mean() < 0.7


def _with_distribution(run: Simulated, module: Any, x: Tensor) -> Tensor:
    from gpu_programs import distribute

    distribute(module)
    return run(x)[0]


@pytest.mark.parametrize("name", ["math", "reductions", "norm", "long rows, online", "scan", "recurrence", "transposed", "images"])
@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_cubins(name: str, arch: str) -> None:
    fn, inputs = CASES[name]
    module, program = tiled(fn, inputs, last=PASS)
    artifact = backend(Target.parse(f"nvvm:{arch}")).compile(module)
    assert {s.kernel for s in program.steps if hasattr(s, "kernel")} == set(artifact.kernels)  # type: ignore[union-attr]
    assert all(need.spill_stores == 0 for need in artifact.resources)


def test_a_name_that_no_kernel_has() -> None:
    with pytest.raises(CompileError, match="no tile program @other for a GPU.*there are add"):
        tiled(lambda a: a + 1, [r(10)], last=f"{PASS}{{kernels=other}}")
    with pytest.raises(CompileError, match="warps=3.*power of two"):
        tiled(lambda a: a + 1, [r(10)], last=f"{PASS}{{warps=3}}")


def _listed(found: Any) -> list[Tensor]:
    return list(found) if isinstance(found, tuple | list) else [found]
