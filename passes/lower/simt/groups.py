"""Finds masks that are uniform within each access, so that one predicate per access replaces a vector of i1.

A comparison of `base + lane` has the same outcome for all `vec` lanes of an access where base and bound are multiples of vec.
Guards of pads, concatenations and slices, and bounds of rows, are of this kind.
"""

from torch_mlir import ir
from torch_mlir.dialects import arith

from ...ir.reading import integer, number_of
from ..lane_indices import broadcast_scalar, ramp_base
from .divisors import Divisors
from .threads import IndexBuilder
from .values import WholeMask

_DECIDED = (arith.CmpIPredicate.slt, arith.CmpIPredicate.sge, arith.CmpIPredicate.ult)


class Groups:
    """Records such masks in `found` as ops are visited."""

    def __init__(self, vec: int, offsets: list[ir.Value], divisors: Divisors, index_ops: IndexBuilder) -> None:
        self.vec, self.offsets, self.divisors, self.index_ops = vec, offsets, divisors, index_ops
        self.masks: dict[ir.Value, WholeMask] = {}

    def visit(self, op: ir.Operation, values: dict[ir.Value, object]) -> None:
        """Analyzes an op that makes a vector. held: the thread's values."""
        if op.name == "vector.broadcast" and _is_truth(op.results[0]):
            value = values[op.operands[0]]
            assert isinstance(value, ir.Value)
            self.masks[op.results[0]] = WholeMask((value,) * len(self.offsets))
        elif op.name == "arith.andi" and all(v in self.masks or number_of(v) for v in op.operands):
            self.masks[op.results[0]] = self._both(*op.operands)
        elif op.name == "arith.cmpi":
            self._compare(op, values)

    def _compare(self, op: ir.Operation, values: dict[ir.Value, object]) -> None:
        predicate = arith.CmpIPredicate(integer(op, "predicate"))
        ramp, bound = ramp_base(op.operands[0]), op.operands[1]
        if predicate not in _DECIDED or ramp is None or self.divisors.of(ramp) % self.vec:
            return
        number = number_of(bound)
        if isinstance(number, int):
            limit, divisor = self.index_ops.number(number), number
        elif (scalar := broadcast_scalar(bound)) is not None:
            limit, divisor = values[scalar], self.divisors.of(scalar)
        else:
            return
        base = values[ramp]
        if divisor % self.vec == 0:
            assert isinstance(base, ir.Value) and isinstance(limit, ir.Value)
            inside = tuple(arith.cmpi(predicate, arith.addi(base, o), limit) for o in self.offsets)
            self.masks[op.results[0]] = WholeMask(inside)

    def _both(self, a: ir.Value, b: ir.Value) -> WholeMask:
        if a not in self.masks or b not in self.masks:
            return self.masks[a if a in self.masks else b]
        pairs = zip(self.masks[a].inside, self.masks[b].inside, strict=True)
        return WholeMask(tuple(x if y is None else y if x is None else arith.andi(x, y) for x, y in pairs))


def _is_truth(v: ir.Value) -> bool:
    element = ir.VectorType(v.type).element_type
    return isinstance(element, ir.IntegerType) and element.width == 1
