"""Extracts kernel functions that reduce along rows from a planned module, each as the only kernel of a program."""

import math
from collections.abc import Sequence

from torch_mlir import ir

from lamina.passes.families.surroundings import plain_name
from lamina.passes.ir.reading import element_type, terminator
from lamina.passes.space.schedule import bits
from lamina.passes.tile.row_programs import RowProblem, kernel_functions

from .parts import ModulePart

_KERNEL = "kernel"  # name of the function of a part


class RowPart(ModulePart):
    """A kernel function as the only kernel of a program. rounds: it rounds intermediate values of half types, as eager does."""

    level = "plan"

    def __init__(self, problem: RowProblem, rounds: bool = False) -> None:
        kernel = problem.kernel
        with kernel.context, ir.Location.unknown():
            types = [argument.type for argument in problem.arguments]
        inputs = kernel.regions[0].blocks[0].arguments
        results = terminator(kernel.regions[0].blocks[0]).operands
        tensors = [v.type for v in (*inputs, *results)]
        dtypes = [', dtype = "bool"' if element_type(v) == "i1" else "" for v in (*inputs, *results)]
        names = [f"%m{i}" for i in range(len(types))]
        kinds = [("input", i) for i in range(len(inputs))] + [("output", i) for i in range(len(results))]
        buffers = [
            f'{name} = "plan.{kind}"() {{index = {i} : i64{dtype}}} : () -> {type_}'
            for name, (kind, i), dtype, type_ in zip(names, kinds, dtypes, types, strict=True)
        ]
        with kernel.context, ir.Location.unknown():
            module = ir.Module.parse(_program(buffers, names, types, len(inputs)))
            function = kernel.clone(ip=ir.InsertionPoint(module.body))
            function.attributes["sym_name"] = ir.StringAttr.get(_KERNEL)
            if "graph.inplace" in function.attributes:
                del function.attributes["graph.inplace"]
        largest = max(map(ir.RankedTensorType, tensors), key=lambda t: math.prod(t.shape) * bits(str(t.element_type)))
        what = f"{plain_name(kernel)} {'x'.join(map(str, largest.shape))} {largest.element_type}"
        strides = [tuple(t.get_strides_and_offset()[0]) for t in types[: len(inputs)]]
        memory = [(str(t.element_type), t.shape, s) for t, s in zip(map(ir.RankedTensorType, tensors), strides, strict=False)]
        super().__init__(problem, what, module, memory, rounds)

    def carriers(self, module: ir.Module) -> Sequence[ir.Operation]:
        """Returns the function."""
        return kernel_functions(module)


def _program(buffers: list[str], names: list[str], types: list[ir.MemRefType], inputs: int) -> str:
    """Returns the text of a module with a program that launches the kernel on its inputs and outputs."""

    def listed(first: int) -> str:
        """Returns operands and types from number `first` on as text."""
        return f"({', '.join(names[first:])}) : ({', '.join(map(str, types[first:]))}) -> ()"

    operands, _, ends = listed(0).partition(" : ")
    returned, _, returned_types = listed(inputs).partition(" : ")
    launch = f'"plan.launch"{operands} {{kernel = @{_KERNEL}, label = "{_KERNEL}", n_out = {len(names) - inputs} : i64}} : {ends}'
    lines = "\n    ".join((*buffers, launch, f'"plan.return"{returned} : {returned_types}'))
    empty = ", ".join(f"{name} = 0 : i64" for name in ("arena_bytes", "lower_bound", "sum_bytes"))
    return f'"plan.program"() ({{\n    {lines}\n}}) {{{empty}, sym_name = "main"}} : () -> ()'
