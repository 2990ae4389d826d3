"""lamina-checks: converts calls that check truth values to linalg.generic ops."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.dialects.graph import CheckElementOp

from ..infra.base import Pass
from ..ir.generics import empty, generic, with_body
from ..ir.rewriting import calls_of, marked_functions, replace_op

CHECK = "graph.check"  # on a private function: its calls check each element, and fail with this message


@dataclass(frozen=True)
class Checks(Pass):
    """Turn calls that check the elements of a tensor into generics, which fuse with what reads the elements.

    Before, the importer's form:

        %0 = call @check_0(%nonzero) : (tensor<4x8xi1>) -> tensor<4x8xi1>
        func.func private @check_0(tensor<4x8xi1>) -> tensor<4x8xi1> attributes {graph.check = "RuntimeError: ZeroDivisionError"}

    After:

        %0 = linalg.generic {...} ins(%nonzero : tensor<4x8xi1>) outs(%empty : tensor<4x8xi1>) {
          ^bb0(%x: i1, %out: i1):
            %ok = "graph.check"(%x) {message = "RuntimeError: ZeroDivisionError"} : (i1) -> i1
            linalg.yield %ok : i1
        }
    """

    name: ClassVar[str] = "lamina-checks"

    def run(self, module: ir.Module) -> None:
        """Replaces the calls and erases the private functions."""
        declared = marked_functions(module, CHECK)
        for call in calls_of(module, declared):
            message = declared[call.attributes["callee"].value].attributes[CHECK]
            with module.context, call.location, ir.InsertionPoint(call):
                replace_op(call, _generic(call.operands[0], message))
        for function in declared.values():
            function.erase()


def _generic(tensor: ir.Value, message: ir.Attribute) -> ir.Value:
    type_ = tensor.type
    identity = ir.AffineMap.get_identity(type_.rank).results
    op = generic(type_, [tensor, empty(type_)], [identity, identity], type_.rank, [False] * type_.rank)

    def check(x: ir.Value, _: ir.Value) -> ir.Value:
        """Checks one element."""
        return ir.Operation.create(CheckElementOp.OPERATION_NAME, [x.type], [x], {"message": message}).results[0]

    return with_body(op, check)
