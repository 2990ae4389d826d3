"""lamina-scans: converts calls that scan or sort tensors to graph.scan and graph.sort ops."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from ..infra.base import Pass
from ..ir.reading import SCAN, SORT
from ..ir.rewriting import calls_of, marked_functions, replace_op


@dataclass(frozen=True)
class ScansPass(Pass):
    """Turn calls that scan tensors into graph.scan, and those that sort them into graph.sort.

    Before, the importer's form, which survives torch-mlir's pipelines:

        %0 = call @scan_0(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
        func.func private @scan_0(tensor<4x8xf32>) -> tensor<4x8xf32> attributes {graph.scan = {combine = "arith.addf", dim = 1}}

    After:

        %0 = "graph.scan"(%x) {combine = "arith.addf", dim = 1} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    """

    name: ClassVar[str] = "lamina-scans"

    def run(self, module: ir.Module) -> None:
        """Replaces the calls and erases the private functions."""
        for name in (SCAN, SORT):
            declared = marked_functions(module, name)
            for call in calls_of(module, declared):
                given = ir.DictAttr(declared[call.attributes["callee"].value].attributes[name])
                attributes = {named.name: named.attr for named in given}
                with module.context, call.location, ir.InsertionPoint(call):
                    types = [r.type for r in call.results]
                    replace_op(call, ir.Operation.create(name, types, list(call.operands), attributes).results[0])
            for function in declared.values():
                function.erase()
