"""lamina-extern: converts calls of private functions that declare external routines to graph.extern or graph.kernel."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.dialects.graph import ExternOp, KernelOp

from ..infra.base import Pass
from ..ir.locations import where
from ..ir.reading import nested

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
        functions = {f.attributes["sym_name"].value: f for f in module.body.operations if f.operation.name == "func.func"}
        with module.context:
            for call in nested(module.operation, "func.call"):
                self._replace(call, functions)
        for function in functions.values():
            if "graph.callee" in function.attributes:
                function.erase()

    def _replace(self, call: ir.Operation, functions: dict[str, ir.Operation]) -> None:
        name = call.attributes["callee"].value
        function = functions.get(name)
        if function is None or "graph.callee" not in function.attributes:
            raise CompileError(
                f"a call of @{name}, which is not an external function",
                where=where(call.location),
                remedy="give the private function the attributes " + ", ".join(f"graph.{field}" for field in _FIELDS),
            )
        missing = [field for field in _FIELDS if f"graph.{field}" not in function.attributes]
        if missing:
            raise CompileError(
                f"@{name} lacks graph.{missing[0]}", where=where(call.location), remedy="see dialects/graph.py, Extern"
            )
        attributes = {
            key if key == "graph.effect" else key.removeprefix("graph."): function.attributes[key]
            for key in function.attributes
            if key.startswith("graph.")
        }
        is_kernel = ir.StringAttr(attributes["reason"]).value == "kernel"
        if is_kernel:
            del attributes["reason"], attributes["args"]
        extern = ir.Operation.create(
            KernelOp.OPERATION_NAME if is_kernel else ExternOp.OPERATION_NAME,
            results=[r.type for r in call.results],
            operands=list(call.operands),
            attributes=attributes,
            loc=call.location,
            ip=ir.InsertionPoint(call),
        )
        for old, new in zip(call.results, extern.results, strict=True):
            old.replace_all_uses_with(new)
        call.erase()
