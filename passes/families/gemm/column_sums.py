"""Column sums of a product in two steps: the GEMM kernel yields the sums of blocks of rows, and a second kernel adds these."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import tensor

from ...ir.reading import producer, shape_of
from ...space.contraction import Unfit
from .block_sums import BlockSums, SumReduction, blocks_type, emit_sum, emit_terms, f32_tensor, is_reduction, sum_of_f32
from .row_sums import dependents


@dataclass(frozen=True)
class ColumnSum(SumReduction):
    """A sum over the rows of a product, or over equal parts of the rows.

    part_loops  number of its first loops that are not reduced, which count such parts; the last loop is over columns
    summed      what it sums: the value of shape [rows, columns] that its operand reshapes, if any, else the operand
    """

    part_loops: int
    summed: ir.Value

    @staticmethod
    def read(op: ir.Operation, rows: int, columns: int) -> "ColumnSum":
        """Reads a sum over the rows of a product of this size; raises Unfit for other ops."""
        g = sum_of_f32(op)
        *outer, last = g.reduced
        part_loops = outer.index(True) if True in outer else 0
        if last or not all(outer[part_loops:]) or not outer or g.extents[-1] != columns or math.prod(g.extents[:-1]) != rows:
            raise Unfit("a reduction that is not over the rows of the product")
        value = g.op.operands[0]
        before = producer(value)
        if before is not None and before.name == "tensor.expand_shape" and shape_of(before.operands[0]) == (rows, columns):
            value = before.operands[0]
        return ColumnSum(g, part_loops, value)

    @property
    def _shape(self) -> tuple[int, int]:
        return math.prod(self.generic.extents[:-1]), self.generic.extents[-1]

    @property
    def part(self) -> int:
        """Number of rows that are summed to one."""
        return math.prod(self.generic.extents[self.part_loops : -1])

    def blocks_type(self, rows: int) -> ir.RankedTensorType:
        """Returns the type of what `blocks` makes."""
        return blocks_type(self._shape, 0, rows)

    def blocks(self, value: ir.Value, rows: int) -> ir.Value:
        """Emits the sums of blocks of `rows` rows. value: stands for `summed`."""
        m, n = self._shape
        value, rank = emit_terms(self.generic, value), len(shape_of(value))
        if rank > 2:
            value = tensor.collapse_shape(f32_tensor([m, n]), value, [list(range(rank - 1)), [rank - 1]])
        return BlockSums(value, rows, 0).emit()

    def total(
        self, sums: ir.Value, init: ir.Value, parts: Mapping[ir.Value, ir.Value], totals: Mapping[ir.Value, ir.Value], rows: int
    ) -> ir.Value:
        """Emits the reduction's result from the sums of its blocks; see RowSum.total."""
        part_sizes, n = list(self.generic.extents[: self.part_loops]), self.generic.extents[-1]
        split = [*part_sizes, shape_of(sums)[0] // math.prod(part_sizes), n]
        if part_sizes:
            sums = tensor.expand_shape(
                f32_tensor(split), sums, [list(range(self.part_loops + 1)), [self.part_loops + 1]], [], split
            )
        last = len(self.generic.reduced) - 1
        places = [
            self.part_loops + 1 if i == last else i
            for _, loop_terms in self.generic.maps[1]
            for i in [loop_terms[0][0] if loop_terms else -1]
        ]
        return emit_sum(sums, init, [*[False] * self.part_loops, True, False], _dims(*places))


def column_sums(body: Sequence[ir.Operation], rows: int, columns: int, block: int) -> list[ColumnSum]:
    """Returns the column sums of a group's body. Raises Unfit if there are none, or other reductions, or one that depends on
    another, or if a block of `block` rows would lie in two parts."""
    sums = [ColumnSum.read(op, rows, columns) for op in body if is_reduction(op)]
    if not sums:
        raise Unfit("no sum over the rows of the product")
    if any(s.part % block for s in sums if s.part_loops):
        raise Unfit(f"sums over parts of the rows, which blocks of {block} do not fill")
    late = dependents(body, [s.result for s in sums])
    if any(s.summed in late for s in sums):
        raise Unfit("a sum over rows of what depends on another")
    return sums


def _dims(*loops: int) -> list[ir.AffineExpr]:
    """Returns the dimensions of these loops; the constant 0 for negative numbers."""
    return [ir.AffineDimExpr.get(i) if i >= 0 else ir.AffineConstantExpr.get(0) for i in loops]
