"""Describes kernel functions that reduce along rows to tuning, before lamina-tile lowers them."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.sizes import typical
from lamina.core.target import Target
from lamina.schedules.rows import LEAST_BYTES, RowWork, candidates

from ..families.choice import MODEL, Choice
from ..families.problem import Problem
from ..ir.reading import name_of
from ..plan.launches import ALIGNED, Argument, layouts
from ..space.nests import nests_of
from ..space.schedule import Schedule, bits
from .kernel import Kernel
from .programs import loops_of


@dataclass(frozen=True)
class RowProblem(Problem):
    """A kernel function that reduces along rows. arguments: the memory that it is launched on."""

    kernel: ir.Operation
    arguments: list[Argument]
    work: RowWork

    @property
    def ops(self) -> Sequence[ir.Operation]:
        """The function."""
        return (self.kernel,)

    @property
    def reference(self) -> Choice:
        """The cost model's schedule."""
        return MODEL

    def default(self, gpu: Gpu | None) -> Choice:
        """Returns the cost model's schedule."""
        return MODEL

    def candidates(self, gpu: Gpu) -> Sequence[Choice]:
        """Returns other schedules, the most promising first."""
        return [Choice(rows) for rows in candidates(self.work, gpu)]

    def take(self, choice: Choice, target: Target | None) -> None:
        """Sets the schedule, for lamina-tile."""
        choice.write(self.kernel)


def kernel_functions(module: ir.Module) -> list[ir.Operation]:
    """Returns the kernel functions of a planned module."""
    return [o.operation for o in module.body.operations if "graph.kernel" in o.operation.attributes]


def row_problems(module: ir.Module, gpu: Gpu, round_half: bool) -> Iterator[RowProblem]:
    """Yields the kernel functions of a planned module that reduce along rows and have no schedule yet, in order."""
    launched = layouts(module)
    for kernel in kernel_functions(module):
        given = launched.get(name_of(kernel))
        if given is not None and (work := work_of(kernel, given, gpu, round_half)) is not None:
            yield RowProblem(kernel, given, work)


def work_of(kernel: ir.Operation, given: list[Argument], gpu: Gpu, round_half: bool) -> RowWork | None:
    """Returns the work of a kernel function that is launched on the memory `given`; None if it is not a row program, is too small
    to matter, or has a schedule already."""
    moved = sum(math.prod(t.layout.shape) * bits(str(t.element)) // 8 for t in given)
    if typical(moved) < LEAST_BYTES or any(t.symbolic or 0 in t.layout.shape for t in given):
        return None  # the analysis below takes milliseconds
    described = Kernel(kernel, given, [ALIGNED] * len(given))
    if (space := described.row_space(round_half)) is None:
        return None
    program = loops_of(described, space, gpu)
    schedule: Schedule = program.schedule
    if schedule.vector is None or not schedule.column_vector:
        return None
    walks = len(nests_of(space, schedule.merged.columns, [(r, None) for r in space.results], online=True)) == 1
    lanes = schedule.vector.extent + (schedule.shift.width - 1 if schedule.shift is not None else 0)
    rows = math.prod(a.extent for a in schedule.merged.rows)
    return RowWork(schedule.config, lanes, rows, walks, len(schedule.merged.columns) == 1, program.bytes)  # type: ignore[arg-type]
