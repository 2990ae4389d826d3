"""Row and column sums of blocks, and sums of squared distances from row means, for reductions in a GEMM epilogue."""

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from .values import block_shape, broadcast_binary, filled


@dataclass(frozen=True)
class RowMoments:
    """Sums of a block's rows, and of the squared distances from their means: f32 vectors of shape [rows, 1].

    squares  None: not wanted
    count    columns of the block that are summed, of shape [1, 1]
    """

    sum: ir.Value
    squares: ir.Value | None = None
    count: ir.Value | None = None

    def joined(self, before: "RowMoments") -> "RowMoments":
        """Merges the moments of this block and of those before it, which have a column at least, by the method of Chan, Golub and
        LeVeque."""
        total = arith.addf(before.sum, self.sum)
        if self.squares is None or self.count is None or before.squares is None or before.count is None:
            return RowMoments(total)
        count = arith.addf(before.count, self.count)
        mean, other = (broadcast_binary(arith.divf, m.sum, arith.maximumf(m.count, constant(1.0))) for m in (self, before))
        away = arith.subf(mean, other)
        weight = arith.divf(arith.mulf(before.count, self.count), count)
        squares = arith.addf(arith.addf(before.squares, self.squares), broadcast_binary(arith.mulf, arith.mulf(away, away), weight))
        return RowMoments(total, squares, count)


def along_rows(value: ir.Value) -> ir.Value:
    """Returns the sum of each row of a block of f32, [rows, 1]."""
    return _summed(value, 1)


def over_rows(value: ir.Value) -> ir.Value:
    """Returns the sum of each column of a block of f32, [1, columns]."""
    return _summed(value, 0)


def _summed(value: ir.Value, d: int) -> ir.Value:
    f32, shape = ir.F32Type.get(), list(block_shape(value))
    zero = filled([shape[1 - d]], 0.0, f32)
    sums = vector.multi_reduction(ir.Attribute.parse("#vector.kind<add>"), value, zero, [d])
    shape[d] = 1
    return vector.shape_cast(ir.VectorType.get(shape, f32), sums)


def constant(number: float) -> ir.Value:
    """Returns an f32 constant as a block of one element."""
    return filled([1, 1], number, ir.F32Type.get())
