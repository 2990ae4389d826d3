"""Reads the steps of a plan.program with their buffers and dependences."""

from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from torch_mlir import ir

from lamina.core.dtypes import FROM_MLIR
from lamina.core.sizes import typical
from lamina.dialects.plan import STEPS
from lamina.kernels.library import may_alias

from ..ir.reading import callee_of, element_type, integer, ops_in
from ..ir.sizes import layout_of


@dataclass(eq=False)
class PlannedStep:
    """reads, writes: buffers (the ops that allocate them, seen through views). needs: numbers of the steps that must come
    before."""

    op: ir.Operation
    reads: list[ir.Value]
    writes: list[ir.Value]
    needs: set[int] = field(default_factory=set)

    @cached_property
    def bytes(self) -> int:
        """The bytes of all operands and results, at typical sizes."""
        values = [*self.op.operands, *self.op.results]
        return sum(typical(prod(layout_of(v).shape)) * FROM_MLIR[element_type(v)].bytes for v in values)


@dataclass
class PlannedSteps:
    """The steps of a program, by number.

    memory  for each buffer written over another, the first buffer in that memory
    """

    program: ir.Operation
    all: list[PlannedStep]
    memory: dict[ir.Value, ir.Value]

    @staticmethod
    def of(program: ir.Operation) -> "PlannedSteps":
        """Reads the steps of a plan.program, and their dependences."""
        roots: dict[ir.Value, ir.Value] = {}
        steps: list[PlannedStep] = []
        memory: dict[ir.Value, ir.Value] = {}
        aliases: dict[ir.Value, list[ir.Value]] = {}
        for op in ops_in(program.regions[0].blocks[0]):
            if op.name == "plan.view":
                roots[op.result] = roots.get(op.operands[0], op.operands[0])
            elif op.name in STEPS:
                operands = [roots.get(v, v) for v in op.operands]
                count = integer(op, "n_out")
                first_output = len(operands) - count
                reads = [b for v in operands[:first_output] for b in (v, *aliases.get(v, ()))]
                steps.append(PlannedStep(op, reads, operands[first_output:] + list(op.results)))
                for i, o in op.attributes.get("inplace", ()):
                    memory[operands[o]] = memory.get(operands[i], operands[i])
                if op.results and may_alias(callee_of(op)):
                    aliases.update((v, reads) for v in op.results)
        planned = PlannedSteps(program, steps, memory)
        planned._order()
        return planned

    def home(self, buffer: ir.Value) -> ir.Value:
        """Returns the first buffer in the memory of `buffer`."""
        return self.memory.get(buffer, buffer)

    def _order(self) -> None:
        """Sets `needs`: the producers of a step's inputs, and all users of memory that the step writes again."""
        used: dict[ir.Value, list[int]] = {}
        makers: dict[ir.Value, int] = {}
        for number, step in enumerate(self.all):
            step.needs = {makers[r] for r in step.reads if r in makers}
            for w in step.writes:
                step.needs.update(used.get(self.home(w), ()))
                makers[w] = number
            for buffer in (*step.reads, *step.writes):
                used.setdefault(self.home(buffer), []).append(number)
            step.needs.discard(number)
