"""lamina-import-ops: turns calls for which Lamina has ops (random bits, scans, sorts, checks) into these ops."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, linalg

from lamina.core.sizes import SizeLike
from lamina.dialects.graph import CheckElementOp
from lamina.dialects.random import Bits

from ..infra.base import Pass
from ..ir.generics import spread
from ..ir.reading import SCAN, SORT, callee_of
from ..ir.rewriting import calls_of, marked_functions, replace_op
from ..ir.sizes import size_value, sizes_of

RANDOM = "graph.random"
"""The attribute of a private function whose calls draw random bits."""
CHECK = "graph.check"
"""The attribute of a private function whose calls check each element, and fail with this message."""


@dataclass(frozen=True)
class ImportOps(Pass):
    """Turn calls that stand for ops of Lamina into these ops.

    The importer writes what the torch dialect has no op for as a call of a private function, which survives torch-mlir's
    pipelines. The attribute of the function is the name of what its calls become:

        %0 = call @random_0(%seed) : (tensor<i64>) -> tensor<4x8xi32>
        %1 = call @scan_0(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
        %2 = call @check_0(%nonzero) : (tensor<4x8xi1>) -> tensor<4x8xi1>
        func.func private @random_0(tensor<i64>) -> tensor<4x8xi32> attributes {graph.random}
        func.func private @scan_0(tensor<4x8xf32>) -> tensor<4x8xf32> attributes {graph.scan = {combine = "arith.addf", dim = 1}}
        func.func private @check_0(tensor<4x8xi1>) -> tensor<4x8xi1> attributes {graph.check = "RuntimeError: ZeroDivisionError"}

    graph.scan and graph.sort become ops on tensors. Random bits and checks become generics, which fuse like any others; a random
    element is random.bits of the seed and of its row-major position `at`:

        %0 = linalg.generic {...} ins(%seed : tensor<i64>) outs(%empty : tensor<4x8xi32>) {
          ^bb0(%s: i64, %out: i32):
            %i = linalg.index 0 ; %j = linalg.index 1 ; %at = %i * 8 + %j
            %bits = "random.bits"(%s, %at) : (i64, index) -> i32
            linalg.yield %bits : i32
        }
        %1 = "graph.scan"(%x) {combine = "arith.addf", dim = 1} : (tensor<4x8xf32>) -> tensor<4x8xf32>
        %2 = linalg.generic {...} ins(%nonzero : tensor<4x8xi1>) outs(%empty : tensor<4x8xi1>) {
          ^bb0(%x: i1, %out: i1):
            %ok = "graph.check"(%x) {message = "RuntimeError: ZeroDivisionError"} : (i1) -> i1
            linalg.yield %ok : i1
        }
    """

    name: ClassVar[str] = "lamina-import-ops"

    def run(self, module: ir.Module) -> None:
        """Replaces the calls and erases the private functions."""
        for mark, build in _MARKED.items():
            declared = marked_functions(module, mark)
            for call in calls_of(module, declared):
                given = declared[callee_of(call)].attributes[mark]
                with module.context, call.location, ir.InsertionPoint(call):
                    replace_op(call, build(call, given))
            for function in declared.values():
                function.erase()


def _random_bits(call: ir.Operation, _: ir.Attribute) -> ir.Value:
    """Emits the generic that draws the bits of a tensor."""
    type_ = call.results[0].type

    def bits(seed: ir.Value) -> ir.Value:
        """Draws the bits for the element's position."""
        operands = [seed, _position(sizes_of(type_))]
        return ir.Operation.create(Bits.OPERATION_NAME, results=[type_.element_type], operands=operands).results[0]

    return spread(call.operands[0], type_, make=bits)


def _position(shape: tuple[SizeLike, ...]) -> ir.Value:
    """Builds the row-major position of the current element of a generic's body."""
    index = ir.IndexType.get()
    position = None
    for d, size in enumerate(shape):
        here = linalg.IndexOp(d).result
        position = here if position is None else arith.addi(arith.muli(position, size_value(size)), here)
    return arith.constant(index, 0) if position is None else position


def _checked(call: ir.Operation, message: ir.Attribute) -> ir.Value:
    """Emits the generic that checks each element."""

    def check(x: ir.Value) -> ir.Value:
        """Checks one element."""
        return ir.Operation.create(CheckElementOp.OPERATION_NAME, [x.type], [x], {"message": message}).results[0]

    return spread(call.operands[0], call.operands[0].type, make=check)


def _op(name: str, call: ir.Operation, given: ir.Attribute) -> ir.Value:
    """Emits the op `name` with the attributes that the function gives."""
    attributes = {named.name: named.attr for named in ir.DictAttr(given)}
    return ir.Operation.create(name, [r.type for r in call.results], list(call.operands), attributes).results[0]


_MARKED: dict[str, Callable[[ir.Operation, ir.Attribute], ir.Value]] = {
    RANDOM: _random_bits,
    SCAN: partial(_op, SCAN),
    SORT: partial(_op, SORT),
    CHECK: _checked,
}
