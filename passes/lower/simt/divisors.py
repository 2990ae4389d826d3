"""Divisibility analysis of indices, which decides how wide an access may be."""

import math

from torch_mlir import ir

from lamina.core.sizes import divisor

from ...ir.reading import number_of
from ...ir.sizes import kernel_size

MOST = 64  # a larger power of two is of no use
_EXTREMA = ("arith.minui", "arith.minsi", "arith.maxui", "arith.maxsi")


class Divisors:
    """Finds divisors of index values, up to MOST."""

    def __init__(self) -> None:
        self._known: dict[ir.Value, int] = {}

    def of(self, value: ir.Value) -> int:
        """Returns a number that divides `value`: the greatest one known, up to MOST."""
        if value not in self._known:
            self._known[value] = self._find(value)
        return self._known[value]

    def _find(self, value: ir.Value) -> int:
        if isinstance(value, ir.BlockArgument):
            return self._argument_divisor(value)
        op = value.owner
        if op.name == "arith.constant":
            number = number_of(value)
            return math.gcd(number, MOST) if isinstance(value.type, ir.IndexType) and isinstance(number, int) else 1
        if op.name == "arith.muli":
            return math.gcd(self.of(op.operands[0]) * self.of(op.operands[1]), MOST)
        if op.name in ("arith.addi", "arith.subi", *_EXTREMA):
            return math.gcd(self.of(op.operands[0]), self.of(op.operands[1]))
        if (size := kernel_size(value)) is not None:
            return math.gcd(divisor(size), MOST)
        if op.name == "arith.select":
            return math.gcd(self.of(op.operands[1]), self.of(op.operands[2]))
        return 1

    def _argument_divisor(self, value: ir.BlockArgument) -> int:
        loop = value.owner.owner
        if loop.name == "scf.for" and value.arg_number == 0:
            return math.gcd(self.of(loop.operands[0]), self.of(loop.operands[2]))
        return 1
