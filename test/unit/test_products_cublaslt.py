"""Products whose activation cuBLASLt computes: what becomes of the program, and its numbers, with torch's CPU for the library."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from attention_programs import graph_level
from gpu_programs import TARGET, Simulated, distribute, tiled
from torch import Tensor
from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.program import Call, Launch
from lamina.passes.families.surroundings import CHOICE
from lamina.passes.families.surroundings import calls as externs
from lamina.passes.infra.pipeline import run
from lamina.passes.plan.program import program_from
from lamina.runtime.resolve import out_variant
from lamina.targets.levels import pipeline

FUSED, PLAIN = "aten._addmm_activation.default", "aten.addmm.default"


def random(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(*shape).to(dtype)


def inputs(dtype: torch.dtype = torch.bfloat16) -> tuple[Tensor, ...]:
    return random(2, 20, 64, dtype=dtype), random(48, 64, dtype=dtype), random(48, dtype=dtype)


def check(fn: Callable[..., Any], *given: Tensor, calls: list[str], kernels: int) -> list[Call]:
    """Against float64, with at most eager's roundings; the calls, of which the program has these, beside so many kernels."""
    module, program = tiled(fn, given, products="cublaslt")
    made = [step for step in program.steps if isinstance(step, Call)]
    assert [step.callee for step in made] == calls
    assert sum(isinstance(step, Launch) for step in program.steps) == kernels
    distribute(module)
    (found,) = Simulated(module, program)(*given)
    want, eager = fn(*(x.double() for x in given)), fn(*given)
    assert found.shape == eager.shape and found.dtype == eager.dtype
    assert (found.double() - want).norm() <= 1.5 * (eager.double() - want).norm() + 1e-5 * want.norm()
    return made


def gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("activation", [torch.relu, gelu])
def test_nothing_but_an_activation(activation: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    (call,) = check(lambda x, w, b: activation(F.linear(x, w, b)), *inputs(dtype), calls=[FUSED], kernels=0)
    assert dict(call.kwargs) == {"use_gelu": activation is gelu}
    assert call.outs and out_variant(torch.ops.aten._addmm_activation.default) is not None  # written where it belongs, no copy


@pytest.mark.parametrize("activation", [torch.relu, gelu])
def test_the_rest_stays_a_kernel(activation: Callable[[Tensor], Tensor]) -> None:
    def block(x: Tensor, w: Tensor, b: Tensor, residual: Tensor) -> Tensor:
        return activation(F.linear(x, w, b)) * 0.5 + residual

    check(block, *inputs(), random(2, 20, 48), calls=[FUSED], kernels=1)


def test_the_rest_may_be_another_product() -> None:
    check(lambda x, w, b: torch.relu(F.linear(x, w, b)) @ w, *inputs(), calls=[FUSED, "aten.mm.default"], kernels=0)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, w, b: F.gelu(F.linear(x, w, b)),
        lambda x, w, b: torch.relu(F.linear(x, w, b) * 0.5),
        lambda x, w, b: torch.relu(F.linear(x, w, b)) + F.linear(x, w, b),
        lambda x, w, b: torch.clamp(F.linear(x, w, b), min=0.5),
        lambda x, w, b: torch.relu(torch.addmm(b, x[0], w.t(), alpha=2)),
        lambda x, w, b: torch.relu(torch.addmm(b[:20, None], x[0], w.t())),
    ],
)
def test_what_the_library_does_not_compute(fn: Callable[..., Any]) -> None:
    check(fn, *inputs(), calls=[PLAIN], kernels=1)


def test_a_bad_choice() -> None:
    with pytest.raises(CompileError, match="'cublas' is no schedule of products"):
        tiled(lambda x, w, b: torch.relu(F.linear(x, w, b)), inputs(), products="cublas")


def test_another_product_has_its_reader() -> None:
    """Tuning answers for each of two products that one group reads; where the first takes the group, the library computes the other
    alone."""
    module = graph_level(lambda x, w, b: F.linear(x, w + 1, b) * 2 + torch.relu(F.linear(x * 2, w, b)), inputs())
    with module.context:
        for op, choice in zip(externs(module), ("triton{m=32 n=32 k=32}", "cublaslt"), strict=True):
            op.attributes[CHOICE] = ir.StringAttr.get(choice)
    run(pipeline("graph", "tile", target=TARGET), module)
    with module.context:
        steps = program_from(module, "cuda").steps
    assert [step.callee for step in steps if isinstance(step, Call)] == [PLAIN]
    assert any("tile.triton" in op.operation.attributes for op in module.body.operations)
