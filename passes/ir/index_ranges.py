"""Interval analysis of index values: ranges of arithmetic on program ids, loop counters and constants."""

import math
from collections.abc import Callable
from typing import TypeAlias

from torch_mlir import ir

from .reading import element_of, number_of, terminator

Range: TypeAlias = tuple[float, float]  # least and largest value, inclusive; infinite where unknown
UNKNOWN: Range = (-math.inf, math.inf)
NATURAL: Range = (0, math.inf)
GROWS = ("arith.addi", "arith.subi", "arith.muli")  # ops whose results may be larger than their operands
_LOOPS = ("scf.for", "scf.parallel")


class Ranges:
    """Intervals of index values and vectors of them, in tile functions and gpu.funcs; computed on demand and memoized.

    Loaded values are unknown: a user's index is checked or masked, not bounded.
    """

    def __init__(self) -> None:
        self._known: dict[ir.Value, Range] = {}

    def of(self, value: ir.Value) -> Range:
        """Returns the interval of an index value; UNKNOWN for a value of another type."""
        if value not in self._known:
            self._known[value] = self._find(value) if isinstance(element_of(value.type), ir.IndexType) else UNKNOWN
        return self._known[value]

    def _find(self, value: ir.Value) -> Range:
        if isinstance(value, ir.BlockArgument):
            return self._argument_range(value)
        op = value.owner
        if op.name == "arith.constant":
            number = number_of(value)
            return UNKNOWN if number is None else (number, number)
        if op.name in _SOURCES:
            return _SOURCES[op.name](op)
        if op.name in _REARRANGING:
            return hull(*(self.of(v) for v in op.operands))
        if op.name == "arith.select":
            return hull(*(self.of(v) for v in list(op.operands)[1:]))
        if op.name == "arith.addi" and (rounded := self._rounded_down(*op.operands)):
            return rounded
        if op.name in _ARITHMETIC:
            return _ARITHMETIC[op.name](*(self.of(v) for v in op.operands))
        if op.name in ("scf.if", "scf.index_switch"):
            ends = [terminator(r.blocks[0]).operands for r in op.regions if len(r.blocks)]
            return hull(*(self.of(end[ir.OpResult(value).result_number]) for end in ends))
        return UNKNOWN

    def _rounded_down(self, x: ir.Value, y: ir.Value) -> Range | None:
        """Returns the range of x + (c - x % n), a row that starts in the middle of an access: interval arithmetic alone does not
        know x % n <= x."""
        for whole, rest in ((x, y), (y, x)):
            if isinstance(rest, ir.BlockArgument) or rest.owner.name != "arith.subi":
                continue
            start, part = rest.owner.operands
            if not isinstance(part, ir.BlockArgument) and part.owner.name == "arith.remui" and part.owner.operands[0] == whole:
                (low, high), most = self.of(start), self.of(whole)[1]
                return (low, high + most) if self.of(whole)[0] >= 0 else None
        return None

    def _argument_range(self, value: ir.BlockArgument) -> Range:
        owner = value.owner.owner
        if owner.name not in _LOOPS or value.arg_number != 0:
            return UNKNOWN
        (low, _), (_, high) = self.of(owner.operands[0]), self.of(owner.operands[1])
        return low, max(low, high - 1)


def _function(op: ir.Operation) -> ir.Operation:
    """Returns the function that an op is in, or the tile.part, which has a grid of its own."""
    while op.parent is not None and op.name not in ("gpu.func", "func.func", "tile.part"):
        op = op.parent
    return op


def _programs(op: ir.Operation) -> Range:
    attributes = _function(op).attributes
    for name in ("tile.grid", "gpu.grid"):
        if name in attributes and isinstance(attributes[name], ir.IntegerAttr):
            return 0, ir.IntegerAttr(attributes[name]).value - 1
    return NATURAL


def _threads(op: ir.Operation) -> Range:
    attributes = _function(op).attributes
    return 0, ir.DenseI32ArrayAttr(attributes["known_block_size"])[0] - 1 if "known_block_size" in attributes else math.inf


def _steps(op: ir.Operation) -> Range:
    return 0, ir.VectorType(op.results[0].type).shape[0] - 1


def hull(*ranges: Range) -> Range:
    """Returns the smallest range that contains all of these."""
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _times(a: Range, b: Range) -> Range:
    ends = [0 if 0 in (x, y) else x * y for x in a for y in b]
    return min(ends), max(ends)


def _quotient_range(a: Range, b: Range) -> Range:
    """Range of an unsigned quotient, for non-negative operands only: a negative one counts as 2**64 more."""
    if a[0] < 0 or b[0] < 0:
        return UNKNOWN
    return a[0] // b[1] if b[1] < math.inf else 0, a[1] // max(b[0], 1) if a[1] < math.inf else math.inf


def _modulo(a: Range, b: Range) -> Range:
    """Range of an unsigned remainder."""
    largest = max(b[1] - 1, 0) if b[0] >= 0 else math.inf
    return 0, min(a[1], largest) if a[0] >= 0 else largest


def _least_unsigned(a: Range, b: Range) -> Range:
    if a[0] >= 0 and b[0] >= 0:
        return min(a[0], b[0]), min(a[1], b[1])
    return 0, min([r[1] for r in (a, b) if r[0] >= 0], default=math.inf)


SIGNED: dict[str, Callable[[Range, Range], Range]] = {
    "arith.addi": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "arith.subi": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "arith.muli": _times,
    "arith.minsi": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "arith.maxsi": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
}
"""Ranges of signed arithmetic on ranges, where nothing wraps."""
_ARITHMETIC: dict[str, Callable[[Range, Range], Range]] = {
    **SIGNED,
    "arith.divui": _quotient_range,
    "arith.remui": _modulo,
    "arith.minui": _least_unsigned,
}
_SOURCES: dict[str, Callable[[ir.Operation], Range]] = {
    "tile.program_id": _programs, "gpu.block_id": _programs, "gpu.thread_id": _threads, "vector.step": _steps,
}  # fmt: skip
_REARRANGING = ("vector.broadcast", "vector.extract", "vector.from_elements", "vector.shape_cast", "vector.extract_strided_slice")
"""Ops whose results have no elements but those of their operands."""
