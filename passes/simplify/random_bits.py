"""lamina-random-bits: converts calls that draw random bits to linalg.generic ops."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import arith, linalg

from lamina.core.sizes import SizeLike
from lamina.dialects.random import Bits

from ..infra.base import Pass
from ..ir.generics import empty, generic, with_body
from ..ir.rewriting import calls_of, marked_functions, replace_op
from ..ir.sizes import size_value, sizes_of

RANDOM = "graph.random"
"""The attribute of a private function whose calls draw random bits."""


@dataclass(frozen=True)
class RandomBits(Pass):
    """Turn calls that draw random bits from a seed into generics, which fuse like any others.

    Before, the importer's form:

        %0 = call @random_0(%seed) : (tensor<i64>) -> tensor<4x8xi32>
        func.func private @random_0(tensor<i64>) -> tensor<4x8xi32> attributes {graph.random}

    After, each element is random.bits of the seed and of its row-major position `at`:

        %0 = linalg.generic {...} ins(%seed : tensor<i64>) outs(%empty : tensor<4x8xi32>) {
          ^bb0(%s: i64, %out: i32):
            %i = linalg.index 0 ; %j = linalg.index 1 ; %at = %i * 8 + %j
            %bits = "random.bits"(%s, %at) : (i64, index) -> i32
            linalg.yield %bits : i32
        }
    """

    name: ClassVar[str] = "lamina-random-bits"

    def run(self, module: ir.Module) -> None:
        """Replaces the calls and erases the private functions."""
        drawn = marked_functions(module, RANDOM)
        for call in calls_of(module, drawn):
            with module.context, call.location, ir.InsertionPoint(call):
                replace_op(call, _generic(call.operands[0], call.results[0].type))
        for function in drawn.values():
            function.erase()


def _generic(seed: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    """Emits the generic that draws the bits of a tensor."""
    identity = ir.AffineMap.get_identity(type_.rank).results
    op = generic(type_, [seed, empty(type_)], [[], identity], type_.rank, [False] * type_.rank)

    def bits(seed: ir.Value, _: ir.Value) -> ir.Value:
        """Draws the bits for the element's position."""
        operands = [seed, _position(sizes_of(type_))]
        return ir.Operation.create(Bits.OPERATION_NAME, results=[type_.element_type], operands=operands).results[0]

    return with_body(op, bits)


def _position(shape: tuple[SizeLike, ...]) -> ir.Value:
    """Builds the row-major position of the current element of a generic's body."""
    index = ir.IndexType.get()
    position = None
    for d, size in enumerate(shape):
        here = linalg.IndexOp(d).result
        position = here if position is None else arith.addi(arith.muli(position, size_value(size)), here)
    return arith.constant(index, 0) if position is None else position
