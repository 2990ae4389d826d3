"""lamina-extern: converts calls of private functions that declare external routines to graph.extern or graph.kernel."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.dialects.graph import ExternOp, KernelOp

from ..infra.base import Pass
from ..ir.locations import where
from ..ir.reading import callee_of, nested
from ..ir.rewriting import marked_functions, replace_op

_FIELDS = ("callee", "reason", "args", "kwargs", "strides")


@dataclass(frozen=True)
class ExternPass(Pass):
    """Turn calls of external functions into graph.extern, or graph.kernel where the reason is "kernel".

    Before, the importer's form, which survives torch-mlir's pipelines:

        %0 = call @extern_0(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
        func.func private @extern_0(...) -> ... attributes {graph.callee = "aten.mm.default", graph.reason = "library", ...}

    After, with the private functions gone:

        %0 = "graph.extern"(%x, %w) {callee = "aten.mm.default", reason = "library", args = [unit, unit], kwargs = {},
                                     strides = [array<i64: 8, 1>]} : ...

    A routine with side effects (random numbers) keeps its attribute `graph.effect`, and its order among others like it.
    """

    name: ClassVar[str] = "lamina-extern"

    def run(self, module: ir.Module) -> None:
        """Replaces the calls and erases the functions. Raises CompileError for a call without the attributes it needs."""
        externs = marked_functions(module, "graph.callee")
        with module.context:
            for call in nested(module.operation, "func.call"):
                _replace(call, externs)
        for function in externs.values():
            function.erase()


def _replace(call: ir.Operation, externs: dict[str, ir.Operation]) -> None:
    name = callee_of(call)
    if name not in externs:
        raise CompileError(
            f"a call of @{name}, which is not an external function",
            where=where(call.location),
            remedy="give the private function the attributes " + ", ".join(f"graph.{field}" for field in _FIELDS),
        )
    declared = externs[name].attributes
    if missing := [field for field in _FIELDS if f"graph.{field}" not in declared]:
        raise CompileError(f"@{name} lacks graph.{missing[0]}", where=where(call.location), remedy="see dialects/graph.py, Extern")
    graph = (key for key in declared if key.startswith("graph."))
    attributes = {key if key == "graph.effect" else key.removeprefix("graph."): declared[key] for key in graph}
    is_kernel = ir.StringAttr(attributes["reason"]).value == "kernel"
    if is_kernel:
        del attributes["reason"], attributes["args"]
    op, types = KernelOp if is_kernel else ExternOp, [r.type for r in call.results]
    with call.location, ir.InsertionPoint(call):
        new = ir.Operation.create(op.OPERATION_NAME, types, list(call.operands), attributes)
    replace_op(call, *new.results)
