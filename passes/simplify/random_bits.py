"""lamina-random-bits: converts calls that draw random bits to linalg.generic ops."""

from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.dialects.random import Bits

from ..infra.base import Pass

RANDOM = "graph.random"  # on a private function: calls of it are random.bits, not external calls


@dataclass(frozen=True)
class RandomBits(Pass):
    """Turn calls that draw random bits from a seed into generics, which fuse like others.

    Before, the importer's form:

        %0 = call @random_0(%seed) : (tensor<i64>) -> tensor<4x8xi32>
        func.func private @random_0(tensor<i64>) -> tensor<4x8xi32> attributes {graph.random}

    After, element number `at`, counted in row-major order, is random.bits of the seed and `at`:

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
        drawn = {f.attributes["sym_name"].value: f for f in module.body.operations if RANDOM in f.operation.attributes}
        calls: list[ir.Operation] = []

        def collect(op: ir.Operation) -> ir.WalkResult:
            if op.name == "func.call" and op.attributes["callee"].value in drawn:
                calls.append(op)
            return ir.WalkResult.ADVANCE

        if not drawn:
            return
        module.operation.walk(collect)
        for call in calls:
            with module.context, call.location, ir.InsertionPoint(call):
                call.results[0].replace_all_uses_with(_generic(call.operands[0], call.results[0].type))
            call.erase()
        for function in drawn.values():
            function.erase()


def _generic(seed: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    rank, i64 = type_.rank, ir.IntegerType.get_signless(64)
    empty = ir.Operation.create("tensor.empty", results=[type_]).results[0]
    maps = [ir.AffineMap.get(rank, 0, []), ir.AffineMap.get_identity(rank)]
    new = ir.Operation.create(
        "linalg.generic", results=[type_], operands=[seed, empty], regions=1,
        attributes={
            "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps]),
            "iterator_types": ir.ArrayAttr.get([ir.Attribute.parse("#linalg.iterator_type<parallel>")] * rank),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1]),
        },
    )  # fmt: skip
    block = new.regions[0].blocks.append(i64, type_.element_type)
    with ir.InsertionPoint(block):
        bits = ir.Operation.create(
            Bits.OPERATION_NAME, results=[type_.element_type], operands=[block.arguments[0], _position(list(type_.shape))]
        )
        ir.Operation.create("linalg.yield", operands=[bits.results[0]])
    return new.results[0]


def _position(shape: list[int]) -> ir.Value:
    """Builds the row-major position of the current element of a generic's body."""
    index, i64 = ir.IndexType.get(), ir.IntegerType.get_signless(64)

    def number(n: int) -> ir.Value:
        return ir.Operation.create("arith.constant", results=[index], attributes={"value": ir.IntegerAttr.get(index, n)}).results[0]

    at = None
    for d, size in enumerate(shape):
        here = ir.Operation.create("linalg.index", results=[index], attributes={"dim": ir.IntegerAttr.get(i64, d)}).results[0]
        if at is not None:
            scaled = ir.Operation.create("arith.muli", results=[index], operands=[at, number(size)]).results[0]
            here = ir.Operation.create("arith.addi", results=[index], operands=[scaled, here]).results[0]
        at = here
    return number(0) if at is None else at
