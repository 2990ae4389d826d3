"""Tunes the schedules of row reductions (softmax, norms, losses, with fused surroundings): asks tuning for each kernel function of
a planned module and writes the answer as `graph.rows`, for lamina-tile."""

import math
from collections.abc import Iterator, Sequence
from typing import Unpack

import torch
from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.options import Options
from lamina.passes.ir.reading import element_type
from lamina.passes.plan.launches import layouts
from lamina.passes.space.schedule import bits
from lamina.passes.space.schedule_gpu import ROWS
from lamina.passes.tile.row_programs import work_of
from lamina.schedules.rows import MODEL, candidates
from lamina.targets import Backend

from ..question import Question
from ..revision import digest, revision
from ..store.store import Store
from .hot_ops import Heard, Seen, chosen, ignored
from .subgraph_extraction import DTYPES, plain_name

_KERNEL = "kernel"  # name of the function of a part


class RowPart:
    """A kernel function as the only kernel of a program; implements lamina.tune.problems.subgraph_extraction.Part.

    kernel  the function
    types   of the memory that it is launched on
    rounds  it rounds intermediate values of half types, as eager does
    """

    level = "plan"

    def __init__(self, kernel: ir.Operation, types: list[ir.MemRefType], rounds: bool) -> None:
        given = kernel.regions[0].blocks[0].arguments
        results = list(kernel.regions[0].blocks[0].operations)[-1].operands
        tensors = [v.type for v in (*given, *results)]
        dtypes = [', dtype = "bool"' if element_type(v) == "i1" else "" for v in (*given, *results)]
        names = [f"%m{i}" for i in range(len(types))]
        kinds = [("input", i) for i in range(len(given))] + [("output", i) for i in range(len(results))]
        made = [
            f'{name} = "plan.{kind}"() {{index = {i} : i64{dtype}}} : () -> {type_}'
            for name, (kind, i), dtype, type_ in zip(names, kinds, dtypes, types, strict=True)
        ]
        with kernel.context, ir.Location.unknown():
            module = ir.Module.parse(_program(made, names, types, len(given)))
            function = kernel.clone(ip=ir.InsertionPoint(module.body))
            function.attributes["sym_name"] = ir.StringAttr.get(_KERNEL)
            if "graph.inplace" in function.attributes:
                del function.attributes["graph.inplace"]
            self.text: str = module.operation.get_asm(enable_debug_info=False)
        name = plain_name(kernel)
        largest = max(map(ir.RankedTensorType, tensors), key=lambda t: math.prod(t.shape) * bits(str(t.element_type)))
        self.what = f"{name} {'x'.join(map(str, largest.shape))} {largest.element_type}"
        strides = [tuple(t.get_strides_and_offset()[0]) for t in types[: len(given)]]
        self.inputs = [(ir.RankedTensorType(t), s) for t, s in zip(tensors, strides, strict=False)]
        self.key = f"{self.what} {digest(self.text, str(rounds), revision())}"

    def settle(self, inputs: Sequence[torch.Tensor]) -> None:
        """Does nothing: no input needs certain values."""

    def mark(self, module: ir.Module, name: str) -> None:
        """Sets the schedule called `name`, unless that is the cost model's own."""
        if name != MODEL:
            kernel = next(o.operation for o in module.body.operations if "graph.kernel" in o.operation.attributes)
            kernel.attributes[ROWS] = ir.StringAttr.get(name)


def annotate_rows(
    module: ir.Module, backend: Backend, index: int, options: Options, store: Store, heard: Heard = ignored, **seen: Unpack[Seen]
) -> None:
    """Writes `graph.rows` on the functions of a planned module for which tuning has another answer than the cost model. The
    arguments are those of lamina.tune.problems.hot_ops.annotate."""
    winners = chosen(_rows, module, backend, index, options, store, heard, **seen)
    with module.context:
        for kernel, winner in winners:
            if winner != MODEL:
                kernel.attributes[ROWS] = ir.StringAttr.get(winner)


def _rows(module: ir.Module, gpu: Gpu, rounds: bool) -> Iterator[tuple[ir.Operation, RowPart, Question]]:
    launched = layouts(module)
    for kernel in (o.operation for o in module.body.operations if "graph.kernel" in o.operation.attributes):
        types = launched.get(ir.StringAttr(kernel.attributes["sym_name"]).value)
        if not all(element_type(v) in DTYPES for v in kernel.regions[0].blocks[0].arguments):
            continue  # there are no random numbers of these
        if types is not None and (work := work_of(kernel, types, gpu, rounds)) and (names := candidates(work, gpu)):
            part = RowPart(kernel, types, rounds)
            yield kernel, part, Question(part.key, part.what, names, MODEL)


def _program(made: list[str], names: list[str], types: list[ir.MemRefType], inputs: int) -> str:
    """The text of a module with a program that launches the kernel on its inputs and outputs."""

    def listed(first: int) -> str:
        return f"({', '.join(names[first:])}) : ({', '.join(map(str, types[first:]))}) -> ()"

    operands, _, ends = listed(0).partition(" : ")
    returned, _, of = listed(inputs).partition(" : ")
    launch = f'"plan.launch"{operands} {{kernel = @{_KERNEL}, label = "{_KERNEL}", n_out = {len(names) - inputs} : i64}} : {ends}'
    lines = "\n    ".join((*made, launch, f'"plan.return"{returned} : {of}'))
    empty = ", ".join(f"{name} = 0 : i64" for name in ("arena_bytes", "lower_bound", "sum_bytes"))
    return f'"plan.program"() ({{\n    {lines}\n}}) {{{empty}, sym_name = "main"}} : () -> ()'
