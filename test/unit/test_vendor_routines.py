"""Tests CONTRIBUTING's example of a vendor's routine, which is one file and one registry line: it is selected, offered to tuning,
planned and run."""

import re
from pathlib import Path
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import TARGET, Simulated
from problems import products
from test_tune_products import graph_level
from torch import Tensor
from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.program import Call
from lamina.core.target import Target
from lamina.dialects import context
from lamina.passes.families import select
from lamina.passes.families.vendor.routine import VendorSchedule
from lamina.passes.infra.pipeline import run
from lamina.passes.plan.program import program_from
from lamina.targets.levels import pipeline

SECTION = (
    (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text().partition("## Add a vendor's routine")[2].partition("\n## ")[0]
)
CALLEE = "aten._addmm_activation.default"
CHOICE = "vendor{routine=cublaslt}"


@pytest.fixture(autouse=True)
def _routine(monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
    made = ModuleType("lamina.passes.families.vendor.product_with_relu")
    made.__package__ = "lamina.passes.families.vendor"
    exec(compile(text, "CONTRIBUTING.md", "exec"), vars(made))
    monkeypatch.setattr(select, "ROUTINES", (made.ProductWithRelu(),))


def of(fn: str, dtype: torch.dtype = torch.bfloat16) -> tuple[ir.Module, list[Tensor]]:
    """A linear layer with what `fn` names after it, at the graph level."""
    after = {
        "relu": F.relu, "gelu": F.gelu, "relu of more": lambda x: F.relu(x * 2), "of other rows": lambda x: F.relu(x).flip(0), "nothing": abs
    }[fn]  # fmt: skip
    given = [torch.randn(*shape).to(dtype) for shape in ((80, 64), (96, 64), (96,))]
    return graph_level(*given, fn=lambda x, w, b: after(F.linear(x, w, b))), given


def test_the_lit_test_of_the_section() -> None:
    (text,) = re.findall(r"```mlir\n(.*?)```", SECTION, re.DOTALL)
    with context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        run(f"builtin.module(lamina-select-kernels{{target={TARGET}}})", module)
        (main,) = module.body.operations
        call, end = main.regions[0].blocks[0].operations
    assert call.operation.attributes["callee"].value == CALLEE and end.operation.name == "func.return"


@pytest.mark.parametrize(
    ("fn", "offered"), [("relu", True), ("gelu", False), ("relu of more", False), ("of other rows", False), ("nothing", False)]
)
def test_it_competes_for_what_it_computes(fn: str, offered: bool) -> None:
    module, _ = of(fn)
    with module.context:
        (problem,) = products(module)
        found = [str(choice) for choice in select.candidates(problem, Target.parse(TARGET))]
    assert (CHOICE in found) == offered and (not offered or found.index(CHOICE) == len(found) - 1 > 0)


def test_a_program_calls_it() -> None:
    module, given = of("relu")
    with module.context, ir.Location.unknown():
        (problem,) = products(module)
        (choice,) = (c for c in select.candidates(problem, Target.parse(TARGET)) if isinstance(c.kernel, VendorSchedule))
        choice.write(problem.ops[0])
    run(pipeline("graph", "tile", target=TARGET), module)
    with module.context:
        program = program_from(module, "cuda")
    (step,) = program.steps
    assert isinstance(step, Call) and step.callee == CALLEE and len(step.outs) == 1 and not step.owned
    (found,) = Simulated(module, program)(*given)
    torch.testing.assert_close(found, F.relu(F.linear(*given)), rtol=0.02, atol=0.02)


def test_others_are_refused() -> None:
    module, _ = of("gelu")
    with module.context, ir.Location.unknown():
        (problem,) = products(module)
        select.Choice(VendorSchedule("cublaslt")).write(problem.ops[0])
    with pytest.raises(CompileError, match=r"vendor\{routine=cublaslt\} cannot compute this: the routine is for other calls"):
        run(pipeline("graph", "tile", target=TARGET), module)
