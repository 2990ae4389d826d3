"""Column sums of a product in two steps: the GEMM kernel yields the sums of blocks of rows, and a second kernel adds these."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from ...ir.generics import filled, generic, is_zero, with_body
from ...ir.reading import Generic, producer, shape_of
from ...space.contraction import Unfit
from .longer import f32, padded, unpadded
from .row_sums import SumReduction, adds, depending, is_reduction, sum_of_f32, terms


@dataclass(frozen=True)
class ColumnBlocks:
    """Sums of `value`, f32 of shape [m, n], over blocks of `rows` rows. The last may be shorter."""

    value: ir.Value
    rows: int

    @staticmethod
    def read(v: ir.Value) -> "ColumnBlocks | None":
        """Recognizes what `emit` makes, or a model's sum of that form; None for other values."""
        op = producer(v)
        g = Generic.read(op) if op is not None and op.name == "linalg.generic" else None
        if g is None or g.reduced != (False, True, False) or not adds(g) or not is_zero(g.op.operands[1]):
            return None
        parts = producer(g.op.operands[0])
        if parts is None or parts.name != "tensor.expand_shape" or g.maps[1] != _plain(0, 2):
            return None
        whole = unpadded(parts.operands[0], 0, g.extents[1])
        if len(shape_of(whole)) != 2 or shape_of(whole)[1] != g.extents[2]:
            return None
        return ColumnBlocks(whole, g.extents[1])

    def emit(self) -> ir.Value:
        """Emits the sums, of shape [blocks, n]."""
        m, n = shape_of(self.value)
        blocks = -(-m // self.rows)
        whole = padded(self.value, 0, blocks * self.rows)
        split = [blocks, self.rows, n]
        parts = tensor.expand_shape(f32(split), whole, [[0, 1], [2]], [], split)
        return _added(parts, filled(f32([blocks, n]), 0.0), [False, True, False], _dims(0, 2))


@dataclass(frozen=True)
class ColumnSum(SumReduction):
    """A sum over the rows of a product, or over equal parts of the rows.

    kept    number of its first loops that are not reduced, which count such parts; the last loop is over columns
    summed  what it sums: the value of shape [rows, columns] that its operand reshapes, if any, else the operand
    """

    kept: int
    summed: ir.Value

    @staticmethod
    def read(op: ir.Operation, rows: int, columns: int) -> "ColumnSum":
        """Reads a sum over the rows of a product of this size; raises Unfit for other ops."""
        g = sum_of_f32(op)
        *outer, last = g.reduced
        kept = outer.index(True) if True in outer else 0
        if last or not all(outer[kept:]) or not outer or g.extents[-1] != columns or math.prod(g.extents[:-1]) != rows:
            raise Unfit("a reduction that is not over the rows of the product")
        value = g.op.operands[0]
        before = producer(value)
        if before is not None and before.name == "tensor.expand_shape" and shape_of(before.operands[0]) == (rows, columns):
            value = before.operands[0]
        return ColumnSum(g, kept, value)

    @property
    def _shape(self) -> tuple[int, int]:
        return math.prod(self.of.extents[:-1]), self.of.extents[-1]

    @property
    def part(self) -> int:
        """Number of rows that are summed to one."""
        return math.prod(self.of.extents[self.kept : -1])

    def blocks_type(self, rows: int) -> ir.RankedTensorType:
        """Returns the type of what `blocks` makes."""
        m, n = self._shape
        return f32([-(-m // rows), n])

    def blocks(self, value: ir.Value, rows: int) -> ir.Value:
        """Emits the sums of blocks of `rows` rows. value: stands for `summed`."""
        m, n = self._shape
        value, rank = terms(self.of, value), len(shape_of(value))
        if rank > 2:
            value = tensor.collapse_shape(f32([m, n]), value, [list(range(rank - 1)), [rank - 1]])
        return ColumnBlocks(value, rows).emit()

    def total(
        self, sums: ir.Value, init: ir.Value, parts: Mapping[ir.Value, ir.Value], totals: Mapping[ir.Value, ir.Value], rows: int
    ) -> ir.Value:
        """Emits the reduction's result from the sums of its blocks; see RowSum.total."""
        kept, n = list(self.of.extents[: self.kept]), self.of.extents[-1]
        split = [*kept, shape_of(sums)[0] // math.prod(kept), n]
        if kept:
            sums = tensor.expand_shape(f32(split), sums, [list(range(self.kept + 1)), [self.kept + 1]], [], split)
        last = len(self.of.reduced) - 1
        places = [self.kept + 1 if i == last else i for _, found in self.of.maps[1] for i in [found[0][0] if found else -1]]
        return _added(sums, init, [*[False] * self.kept, True, False], _dims(*places))


def column_sums(body: Sequence[ir.Operation], rows: int, columns: int, block: int) -> list[ColumnSum]:
    """Returns the column sums of a group's body. Raises Unfit where there are none, or other reductions, or one that depends on
    another, or where a block of `block` rows would lie in two parts."""
    found = [ColumnSum.read(op, rows, columns) for op in body if is_reduction(op)]
    if not found:
        raise Unfit("no sum over the rows of the product")
    if any(s.part % block for s in found if s.kept):
        raise Unfit(f"sums over parts of the rows, which blocks of {block} do not fill")
    late = depending(body, [s.result for s in found])
    if any(s.summed in late for s in found):
        raise Unfit("a sum over rows of what depends on another")
    return found


def _added(value: ir.Value, init: ir.Value, reduced: Sequence[bool], out: Sequence[ir.AffineExpr]) -> ir.Value:
    rank = len(reduced)
    made = generic(init.type, [value, init], [_dims(*range(rank)), out], rank, reduced)
    return with_body(made, lambda x, s: arith.addf(s, x))


def _dims(*loops: int) -> list[ir.AffineExpr]:
    """Returns the dimensions of these loops; the constant 0 for negative numbers."""
    return [ir.AffineDimExpr.get(i) if i >= 0 else ir.AffineConstantExpr.get(0) for i in loops]


def _plain(*loops: int) -> tuple[tuple[int, tuple[tuple[int, int], ...]], ...]:
    """Returns the indexing map to these loops in the form of Generic.maps."""
    return tuple((0, ((i, 1),)) for i in loops)
