"""lamina-plan: assigns every value between groups a buffer and an offset in the arena, and outlines groups as functions."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.core.binding.arena import live_bytes, place_slots
from lamina.core.errors import CompileError
from lamina.core.sizes import typical

from ..infra.base import Pass
from ..ir.reading import name_of, ops_in
from .in_place import pairs_in_place
from .lifetimes import lifetimes
from .model import GroupStep
from .outline import mark_in_place, outline
from .read import read
from .write import PlanWriter, step_types


@dataclass(frozen=True)
class PlanPass(Pass):
    """Give every value between groups a buffer and an offset: @main becomes a plan.program.

    Before: @main on tensors at the graph level, only groups, externs, views, constants and the return. Argument attribute
    `graph.strides` gives strides where an argument is not contiguous; the same on a result asks for strides; `graph.shares = j` on
    a result allows it to be the memory of result j; `graph.fresh` forbids it to be an argument's, unless `graph.updates = i` says
    that it is the new value of argument i: then a kernel may write it there. `graph.dtype` distinguishes u8 from i8. `graph.align`
    on an argument: the bytes that it is aligned to, where these are not 16.

        func.func @main(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
          %0 = "graph.group"(%x) ({...}) {sym_name = "relu"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
          %t = linalg.transpose ins(%0) outs(%e) permutation = [1, 0]
          return %t
        }

    After: one private function per different group body and layout, and the program. Values not returned share one arena; its bytes
    are recorded next to `sum_bytes` (without reuse) and `lower_bound` (the most live at one step).

        "plan.program"() ({
          %x = "plan.input"() {index = 0} : () -> memref<4x8xf32>
          %o = "plan.output"() {index = 0} : () -> memref<4x8xf32>
          "plan.launch"(%x, %o) {kernel = @relu, label = "relu", n_out = 1} : ...
          %t = "plan.view"(%o) {offset = 0} : (memref<4x8xf32>) -> memref<8x4xf32, strided<[1, 8]>>
          "plan.return"(%t)
        }) {sym_name = "main", arena_bytes = 0, sum_bytes = 0, lower_bound = 0}
        func.func private @relu(tensor<4x8xf32>) -> tensor<4x8xf32> attributes {graph.kernel}

    `inplace = [[i, o]]` on a launch: operand o is written over operand i; on a kernel: some launch of it does that.
    """

    name: ClassVar[str] = "lamina-plan"

    def run(self, module: ir.Module) -> None:
        """Replaces @main by a plan.program. Raises CompileError if there is no @main, or it holds an op that cannot be
        planned."""
        with module.context, ir.Location.unknown():
            main = _main(module)
            model = read(main)
            groups = [step for step in model.steps if isinstance(step, GroupStep)]
            outlined = outline(module, groups, {step: step_types(step) for step in groups})
            found: dict[ir.Operation, set[tuple[int, int]]] = {}

            def pairs(step: GroupStep) -> set[tuple[int, int]]:
                """Returns which outputs of a step may be written over which inputs."""
                kernel = outlined[step].kernel
                if kernel not in found:
                    layouts = [place.layout for place in step.ins] + [root.layout for root in step.outs]
                    found[kernel] = pairs_in_place(kernel, [layout.strides for layout in layouts])
                return found[kernel]

            slots = lifetimes(model, pairs)
            mark_in_place(outlined)
            bound = live_bytes(slots)
            sizes = {
                "arena_bytes": place_slots(slots, bound),
                "sum_bytes": sum(typical(r.bytes) for r in model.arena),
                "lower_bound": bound,
            }
            PlanWriter(model, main, sizes).emit(outlined, main.location)
            main.erase()


def _main(module: ir.Module) -> ir.Operation:
    functions = ops_in(module.body, "func.func")
    for function in functions:
        if name_of(function) == "main" and len(function.regions[0].blocks) == 1:
            return function
    raise CompileError("no function @main to plan", remedy="lamina-plan takes a module at the graph level, after lamina-fuse")
