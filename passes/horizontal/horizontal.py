"""lamina-horizontal: joins small independent kernels into one launch (horizontal fusion)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.core.target import Target

from ..infra.base import Pass
from ..ir.reading import integer, ops_in
from ..ir.sizes import i64
from .arena import pack
from .cost import SmallKernel, kernels_of
from .order import ordered_steps
from .steps import PlannedStep, PlannedSteps
from .write import Writer, drop_unused

GROWTH = 1.05  # of the arena's bytes, at most
SPARE = 32 << 20  # bytes that it may grow by in any case: little of a GPU's memory, and less than its caches hold
WINDOWS = (64, 8)  # steps that a launch may move over, the first try first


@dataclass(frozen=True)
class Horizontal(Pass):
    """Join small kernels that do not wait for each other into one launch (horizontal fusion).

    Before: a plan.program and its tile programs for a GPU. After: launches that would not fill the machine, or end before the next
    one has begun, become one launch of a function made of tile.part, one for each kernel. Where a kernel comes several times, its
    part has the programs of all, and the buffers are chosen by the program's number. The symbolic sizes of all parts are one list
    (`tile.sizes`), from which parts also read where they start.

        "plan.launch"(%x, %y) {kernel = @relu, n_out = 1}
        "plan.launch"(%a, %b) {kernel = @relu, n_out = 1}
        "plan.launch"(%p, %q) {kernel = @sum, n_out = 1}
     -> "plan.launch"(%x, %a, %p, %y, %b, %q) {kernel = @relu_and_sum, label = "2 x relu, sum", n_out = 3}

    A launch waits until something needs its results. Until then similar launches join it, also later ones that could run by now: no
    two that are joined depend on each other. They have as many threads in a CTA, need a similar number of registers (unless all run
    at once), and share a bounded list of arguments. The arena is packed again for the new order. Where it would grow by more than a
    twentieth and 32 MB, launches move less far, or not at all.

    target   the machine
    """

    name: ClassVar[str] = "lamina-horizontal"
    target: Target

    def run(self, module: ir.Module) -> None:
        """Joins launches of the module's program, by the first of WINDOWS for which the arena stays small enough."""
        gpu = self.target.gpu
        program = next(iter(ops_in(module.body, "plan.program")), None)
        if program is None:
            return
        steps, kernels = PlannedSteps.of(program), kernels_of(module, self.target)
        before = integer(program, "arena_bytes")
        for window in WINDOWS:
            bundles = ordered_steps(steps.all, kernels, gpu, window)
            if all(len(bundle) == 1 for bundle in bundles):
                return
            packed = pack(steps, bundles)
            if packed.bytes <= before * GROWTH + SPARE:
                packed.apply()
                _rewrite(module, program, steps.all, bundles, kernels)
                return


def _rewrite(
    module: ir.Module,
    program: ir.Operation,
    steps: Sequence[PlannedStep],
    bundles: Sequence[Sequence[int]],
    kernels: Mapping[str, SmallKernel],
) -> None:
    """Joins the launches of each bundle, and puts all steps into their order."""
    writer = Writer(module)
    order, joined = [], []
    for bundle in bundles:
        if len(bundle) == 1:
            order.append(steps[bundle[0]].op)
            continue
        bundle_steps = [steps[n] for n in bundle]
        bundle_kernels = [kernels[ir.FlatSymbolRefAttr(step.op.attributes["kernel"]).value] for step in bundle_steps]
        order.append(writer.join(bundle_steps, bundle_kernels))
        joined += bundle_kernels
        for step in bundle_steps:
            step.op.erase()
    _arrange(program.regions[0].blocks[0], order)
    drop_unused(joined, program)


def _arrange(block: ir.Block, order: Sequence[ir.Operation]) -> None:
    """Puts steps into this order, each behind the ops that make its buffers, and numbers outputs as they come."""
    *before, end = ops_in(block)
    placed = {op for op in before if op.name == "plan.input"}

    def place(op: ir.Operation) -> None:
        """Moves an op behind its operands' producers."""
        if op not in placed:
            placed.add(op)
            for v in op.operands:
                place(v.owner)
            op.move_before(end)

    for op in (*order, *before):  # the remaining ones, which no step uses, are results
        place(op)
    outputs = [op for op in block.operations if op.operation.name == "plan.output"]
    for number, op in enumerate(outputs):
        op.attributes["index"] = i64(number)
