"""Describes kernel functions that reduce along rows to tuning, before lamina-tile lowers them."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.target import Target
from lamina.schedules.rows import LEAST_BYTES, RowWork, candidates

from ..families.choice import CHOICE, MODEL, Choice
from ..families.gemm.block_sums import is_reduction
from ..families.problem import Problem
from ..ir.reading import Untraceable
from ..plan.launches import layouts
from ..space.direct_convolution import WINDOW
from ..space.nests import nests_of
from ..space.scans import has_scans
from ..space.schedule import Schedule, bits
from ..space.schedule_gpu import ROWS, schedule_gpu
from ..space.space import Space, find_space
from .tile import ALIGNED, traffic


@dataclass(frozen=True)
class RowProblem(Problem):
    """A kernel function that reduces along rows. types: of the memory that it is launched on."""

    kernel: ir.Operation
    types: list[ir.MemRefType]
    work: RowWork

    @property
    def ops(self) -> Sequence[ir.Operation]:
        """The function."""
        return (self.kernel,)

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
        types = launched.get(ir.StringAttr(kernel.attributes["sym_name"]).value)
        if types is not None and (work := work_of(kernel, types, gpu, round_half)) is not None:
            yield RowProblem(kernel, types, work)


def work_of(kernel: ir.Operation, types: list[ir.MemRefType], gpu: Gpu, round_half: bool) -> RowWork | None:
    """Returns the work of a kernel function that is launched on memrefs of `types`. None where it is no row program, is too small
    to matter, or has a schedule already."""
    block = kernel.regions[0].blocks[0]
    *ops, end = [op.operation for op in block.operations]
    results = list(end.operands)
    if any(name in kernel.attributes for name in (CHOICE, WINDOW, ROWS)) or not any(map(is_reduction, ops)):
        return None
    moved = sum(math.prod(t.shape) * bits(str(t.element_type)) // 8 for t in types)
    if moved < LEAST_BYTES or any(0 in t.shape for t in types):
        return None  # the analysis below takes milliseconds
    strides = [tuple(t.get_strides_and_offset()[0]) for t in types]
    given = dict(zip(block.arguments, strides, strict=False))
    try:
        space = find_space(block, given, strides[len(given) :], divide=True, round_half=round_half)
        if not space.columns or has_scans(space):
            return None
        plan = schedule_gpu(space, dict.fromkeys(block.arguments, ALIGNED), [ALIGNED] * len(results), gpu)
    except Untraceable:
        return None
    return _work(space, plan, traffic(space, results)[0]) if plan.column_vector else None


def _work(space: Space, plan: Schedule, moved: int) -> RowWork:
    assert plan.vector is not None
    walks = len(nests_of(space, plan.merged.columns, [(r, None) for r in space.results], online=True)) == 1
    lanes = plan.vector.extent + (plan.shift.width - 1 if plan.shift is not None else 0)
    rows = math.prod(a.extent for a in plan.merged.rows)
    return RowWork(plan.config, lanes, rows, walks, len(plan.merged.columns) == 1, moved)  # type: ignore[arg-type]
