"""Parts of a module with a choice open: each compiles as a program of its own, once for each candidate."""

import threading
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_mlir import ir

from lamina.core.options import Options
from lamina.core.program import Launch, Program
from lamina.core.program_needs import with_needs
from lamina.passes.families.choice import Choice
from lamina.passes.families.problem import Problem
from lamina.passes.infra.pipeline import run
from lamina.passes.plan.program import program_from
from lamina.runtime.executable import Executable
from lamina.targets import Artifact, Backend
from lamina.targets.kernel_calls.user import take
from lamina.targets.levels import pipeline
from lamina.targets.module import keep_kernels

from ..revision import digest, revision
from .inputs import dtype_of, random_tensors

COMPILER = threading.Lock()  # MLIR's bindings are not thread-safe


class ModulePart:
    """A problem with what surrounds it, as a module whose program takes `memory`: element type, shape and strides of each input.

    level   of the module
    key     is equal for equal computations with the same kernels
    rounds  Lamina's kernels round intermediate values of half types, as eager does
    """

    level: ClassVar[str]

    def __init__(
        self,
        problem: Problem,
        what: str,
        module: ir.Module,
        memory: Sequence[tuple[str, Sequence[int], Sequence[int]]],
        rounds: bool,
    ) -> None:
        self.problem, self.what, self.memory = problem, what, memory
        self.text: str = module.operation.get_asm(enable_debug_info=False)
        self.key = f"{what} {digest(self.text, str(rounds), revision())}"

    def mark(self, module: ir.Module, choice: Choice) -> None:
        """Makes a choice in a module parsed from the text."""
        for op in self.carriers(module):
            choice.write(op)

    def carriers(self, module: ir.Module) -> Sequence[ir.Operation]:
        """Returns the ops of a module parsed from the text that carry the choice."""
        raise NotImplementedError


def random_inputs(part: ModulePart, device: torch.device) -> list[Tensor]:
    """Returns inputs of a part: random numbers, but where the problem needs certain values."""
    typed = [(dtype_of(element), shape, strides) for element, shape, strides in part.memory]
    found = random_tensors([(dtype, shape, strides) for dtype, shape, strides in typed if dtype is not None], device)
    part.problem.settle(found)
    return found


class BuiltProgram:
    """A compiled program on its inputs, as lamina.tune.trial.Candidate."""

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        self.inputs = inputs
        self._run: Any = None

    def load(self, program: Program, artifact: Artifact) -> None:
        """Makes the program ready to run."""
        self._run = Executable(program, artifact)
        self._run.load(self.inputs[0].device.index)

    def run(self) -> Sequence[Tensor]:
        """Runs the program on the inputs."""
        return self._run(*self.inputs)


class BuiltCandidate(BuiltProgram):
    """One way to compute a part."""

    def __init__(
        self, part: ModulePart, choice: Choice, backend: Backend, options: Options, context: ir.Context, inputs: Sequence[Tensor]
    ) -> None:
        super().__init__(inputs)
        self.part, self.choice, self.backend, self.options, self.context = part, choice, backend, options, context

    def compile(self) -> None:
        """Compiles the part with the choice made, and loads it."""
        with COMPILER, self.context, ir.Location.unknown():
            module = ir.Module.parse(self.part.text)
            self.part.mark(module, self.choice)
            rounds = self.options.round_intermediates
            run(pipeline(self.part.level, "tile", target=self.backend.target, round_intermediates=rounds), module)
            program = program_from(module, "cuda")
            keep_kernels(module)
            program, ready = take(program, self.options.kernels, self.backend.target.gpu)
            launched = any(isinstance(step, Launch) for step in program.steps)
            artifact = self.backend.compile(module, ready) if launched else Artifact(str(self.backend.target), b"", ())
        self.load(with_needs(program, artifact.needs), artifact)
