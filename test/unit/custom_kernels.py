"""Users' kernels for tests, and programs with them run without a GPU: their kernels by Triton's interpreter, Lamina's in the
simulator."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from gpu_programs import TARGET, Simulated, distribute
from torch import Tensor
from triton.runtime.jit import JITFunction
from triton_interpreter import interpreted

import lamina
from lamina.core.custom_kernel import CustomKernel
from lamina.core.options import Options
from lamina.core.program import Launch, Program
from lamina.core.target import Target
from lamina.frontend.calls.interface import with_outputs
from lamina.frontend.compiling import stages
from lamina.frontend.compiling.lowering import run_passes
from lamina.frontend.custom.substitute import with_registered, with_users_patterns
from lamina.frontend.entry.export import inference_graph
from lamina.frontend.fx.destination import destination_of
from lamina.frontend.rewrites.normalize import normalize
from lamina.passes.plan.program import program_from
from lamina.targets.kernel_calls import user as triton_user
from lamina.targets.module import keep_kernels


@triton.jit
def scaled_add_kernel(x_ptr, y_ptr, out_ptr, n, alpha, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    y = tl.load(y_ptr + at, mask=at < n, other=0)
    tl.store(out_ptr + at, x + alpha * y, mask=at < n)


@torch.library.custom_op("lamina_test::scaled_add", mutates_args=())
def scaled_add(x: Tensor, y: Tensor, alpha: float = 1.0) -> Tensor:
    return x + alpha * y


@scaled_add.register_fake
def _(x: Tensor, y: Tensor, alpha: float = 1.0) -> Tensor:
    return torch.empty_like(x)


def scaled_add_of(**changes: Any) -> CustomKernel:
    given: dict[str, Any] = {
        "kernel": scaled_add_kernel,
        "arguments": lambda x, y, alpha, out: (x, y, out, x.numel(), alpha),
        "grid": lambda x, BLOCK: triton.cdiv(x.numel(), BLOCK),
        "constants": {"BLOCK": 128},
    }
    return lamina.custom_kernel("lamina_test::scaled_add", **{**given, **changes})


def compiled(
    fn: Callable[..., Any], inputs: Sequence[Tensor], kernels: Sequence[CustomKernel] = (), **options: Any
) -> stages.Built:
    """Compiles to a cubin."""
    chosen = with_registered(Options(kernels=tuple(kernels), cache=False, strict=True, **options))
    return stages.build(inference_graph(fn, tuple(inputs), chosen, TARGET), options=chosen, target=TARGET)


def planned(
    fn: Callable[..., Any], inputs: Sequence[Tensor], kernels: Sequence[CustomKernel] = ()
) -> tuple[Any, Program, list[triton_user.UserKernel]]:
    """Returns Lamina's kernels as tile programs, the program, and users' kernels."""
    options = Options(kernels=tuple(kernels), strict=True)
    gm = inference_graph(fn, tuple(inputs), options, TARGET)
    graph = normalize(with_users_patterns(gm, options, destination_of(TARGET, gm)))
    module = stages.import_linalg(graph, options)
    run_passes(module, "linalg", "tile", Target.parse(TARGET), options)
    with module.context:
        program = with_outputs(program_from(module, "cuda"), graph.interface)
    keep_kernels(module)
    return module, *triton_user.as_launches(program)


def run(fn: Callable[..., Any], inputs: Sequence[Tensor], kernels: Sequence[CustomKernel] = ()) -> tuple[list[Tensor], Program]:
    """Returns the results of the program for a GPU, and the program."""
    module, program, users = planned(fn, inputs, kernels)
    if any(op.operation.name == "func.func" for op in module.body.operations):
        distribute(module)
    functions = {k.kernel.cache_key: k.kernel for k in kernels}
    simulated = _Simulated(module, program, {user.symbol: (user, functions[user.key]) for user in users})
    return simulated(*inputs), program


class _Simulated(Simulated):
    def __init__(self, module: Any, program: Program, users: dict[str, tuple[triton_user.UserKernel, JITFunction]]) -> None:
        super().__init__(module, program)
        self.users = users

    def launch(self, step: Launch, arrays: list[Any]) -> None:
        if step.kernel not in self.users:
            return super().launch(step, arrays)
        user, function = self.users[step.kernel]
        with interpreted(function) as inner:
            triton_user.wrapper_function(user, inner)[(step.grid, *step.grid_yz)](*map(torch.from_numpy, arrays))


def launches(program: Program) -> list[Launch]:
    """Returns the steps of a program, all of which are launches."""
    found = [step for step in program.steps if isinstance(step, Launch)]
    assert len(found) == len(program.steps)
    return found
