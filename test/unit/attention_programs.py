"""Attention by Lamina kernels in programs for a GPU, run without one: by Triton's interpreter."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from gluon_simulator import simulate
from gpu_programs import TARGET, Simulated, as_stored, distribute
from torch import Tensor, fx
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch_mlir import ir
from triton_interpreter import interpreted

from lamina.core.gpu import Gpu
from lamina.core.options import Options
from lamina.core.program import Launch, Program
from lamina.frontend.attention.op import ATTENTION
from lamina.frontend.compiling import stages
from lamina.frontend.decompositions.table import table
from lamina.frontend.rewrites.normalize import normalize
from lamina.passes.families.attention.torch_kernels.registry import TORCH_KERNELS
from lamina.passes.infra.pipeline import run
from lamina.passes.plan.program import program_from
from lamina.targets.kernel_calls import own as source_kernels
from lamina.targets.kernel_calls import user as triton_user
from lamina.targets.levels import pipeline
from lamina.targets.module import keep_kernels

_HOPPER = Gpu.named("sm_90a")
_BY_MODEL = f"lamina-select-kernels{{target={TARGET}}}"


def graph_level(fn: Callable[..., Any], inputs: Sequence[Tensor]) -> ir.Module:
    """Returns the graph level of a function of tensors, which may call attention's op for GPUs, on fake tensors."""

    def flat(*tensors: Tensor) -> list[Tensor]:
        found = fn(*tensors)
        return list(found) if isinstance(found, tuple | list) else [found]

    with torch.no_grad():
        gm = make_fx(functionalize(flat), decomposition_table=table(), tracing_mode="fake")(*inputs)
    return to_graph_level(gm)


def to_graph_level(gm: fx.GraphModule) -> ir.Module:
    """Returns the graph level of a decomposed graph."""
    module = stages.import_linalg(normalize(gm), Options(strict=True))
    run(pipeline("linalg", "graph", target=TARGET), module)
    return module


def program_of(module: ir.Module, schedule: str = "") -> Program:
    """The program of a module at the graph level, which then holds its tile programs. schedule: of attention, or several
    with "; " between; "" as the cost model has it."""
    each = [f"lamina-select-kernels{{schedule='{one}'}}" for one in schedule.split("; ")]
    chosen = ",".join(each) if schedule else _BY_MODEL
    run(pipeline("graph", "tile", target=TARGET).replace(_BY_MODEL, chosen), module)
    with module.context:
        program = program_from(module, "cuda")
    keep_kernels(module)
    return program


def compute(fn: Callable[..., Any], inputs: Sequence[Tensor], schedule: str, gpu: Gpu = _HOPPER) -> tuple[list[Tensor], list[str]]:
    """Returns the results, and the names of the kernels that were launched."""
    module = graph_level(fn, inputs)
    return run_program(module, program_of(module, schedule), inputs, gpu)


def run_program(
    module: ir.Module, program: Program, inputs: Sequence[Tensor], gpu: Gpu = _HOPPER
) -> tuple[list[Tensor], list[str]]:
    """Returns the same for a program whose tile programs are in a module."""
    program, functions = source_kernels.place_own_kernels(program, gpu)
    program, kernels = triton_user.as_launches(program)
    if any(op.operation.name == "func.func" for op in module.body.operations):
        distribute(module)
    simulated = _Simulated(module, program, {k.symbol: k for k in kernels}, functions)
    return simulated(*inputs), [step.name for step in program.steps if isinstance(step, Launch)]


class _Simulated(Simulated):
    def __init__(
        self, module: ir.Module, program: Program, kernels: Mapping[str, triton_user.UserKernel], functions: Mapping[str, Any]
    ) -> None:
        super().__init__(module, program)
        self.kernels, self.functions = kernels, functions

    def launch(self, step: Launch, arrays: list[Any]) -> None:
        if step.kernel not in self.kernels:
            return super().launch(step, arrays)
        kernel, grid = self.kernels[step.kernel], (step.grid, *step.grid_yz)
        if kernel.gluon:
            with as_stored(kernel.arguments, arrays) as stored:
                simulate(triton_user.wrapper_function(kernel, self.functions[kernel.key]), grid, stored)
            return
        with interpreted(self.functions[kernel.key]) as inner:
            triton_user.wrapper_function(kernel, inner)[grid](*map(torch.from_numpy, arrays))


def exact(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, causal: bool = False, scale: float | None = None
) -> Tensor:
    """Computes attention in float64 from its definition; rows that see no key are zero."""
    query, key, value = (t.double() for t in (query, key, value))
    key, value = (t.repeat_interleave(query.shape[1] // t.shape[1], 1) for t in (key, value))
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else scores + mask.double()
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril(), -torch.inf)
    return torch.nan_to_num(scores.softmax(-1)) @ value


def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, causal: bool = False, scale: float | None = None,
    allowed: str = TORCH_KERNELS,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Returns the result and the logarithms of sums, by the op that graphs have."""
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    found: tuple[Tensor, Tensor] = ATTENTION(query, key, value, mask, None, 0.0, causal, factor, allowed)
    return found


def plain(query: Tensor, key: Tensor, value: Tensor, causal: bool = False, scale: float | None = None) -> Tensor:
    return attention(query, key, value, None, causal, scale)[0]


def masked(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
    return attention(query, key, value, mask, causal)[0]
