"""Row sums of a product in two steps: the GEMM kernel yields the sums of blocks of columns, and a second kernel adds these."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from ...ir.affine import NotAffine, SplitAxis
from ...ir.axes import Axes, retry_with_splits
from ...ir.expressions import Apply, Const, Expr, Load
from ...ir.generics import generic, with_body
from ...ir.reading import Untraceable, shape_of
from ...ir.rewriting import read_by
from ...space.contraction import Unfit
from ...trace.trace import Tracer
from .block_sums import (
    BlockSums,
    SumReduction,
    blocks_type,
    elements_of,
    emit_sum,
    emit_terms,
    f32_tensor,
    is_plain_sum,
    is_reduction,
    sum_of_f32,
)


@dataclass(frozen=True)
class RowSum(SumReduction):
    """A sum along whole rows of a product, and possibly over rows, too.

    outer    number of its loops over rows; the others are over the elements of a row
    about    the sum that gives the mean, where this sums distances from that mean
    squared  sums their squares: a variance
    """

    outer: int
    about: "RowSum | None" = None
    squared: bool = False

    @property
    def summed(self) -> ir.Value:
        """The value whose blocks are summed."""
        return self.operand if self.about is None else self.about.operand

    @property
    def operand(self) -> ir.Value:
        """The operand of the reduction."""
        return self.generic.op.operands[0]

    @staticmethod
    def read(op: ir.Operation, columns: int) -> "RowSum":
        """Reads a sum along rows of `columns` elements; raises Unfit for other ops."""
        g = sum_of_f32(op)
        outer, size = len(g.extents), 1
        while size < columns and outer:
            outer -= 1
            size *= g.extents[outer]
        if columns == 1 or size != columns or not all(g.reduced[outer:]):
            raise Unfit("a reduction that is not along the rows of the product")
        return RowSum(g, outer)

    def about_mean(self, first: "RowSum") -> "RowSum | None":
        """Returns this with `about` set to `first` where it sums distances from the mean by that, or their squares; else None."""
        plain = is_plain_sum(self.generic) and is_plain_sum(first.generic)
        if not plain or shape_of(self.operand) != shape_of(first.operand) or any(first.generic.reduced[: first.outer]):
            return None
        axes = Axes(shape_of(self.operand))

        def build() -> tuple[Expr, Expr]:
            """Traces both operands as expressions of the same place."""
            tracer = Tracer(lambda v: v == first.result)
            return tracer.element(self.operand, axes.index), tracer.element(first.operand, axes.index)

        try:
            away, x = retry_with_splits(build, axes)
        except (SplitAxis, NotAffine, Untraceable):
            return None
        squared = isinstance(away, Apply) and away.op == "arith.mulf" and away.operands[0] is away.operands[1]
        away = away.operands[0] if isinstance(away, Apply) and squared else away
        if not (isinstance(away, Apply) and away.op == "arith.subf" and away.operands[0] is x):
            return None
        mean, n = away.operands[1], math.prod(first.generic.extents[first.outer :])
        if not isinstance(mean, Apply) or mean.op not in ("arith.divf", "arith.mulf"):
            return None
        total, by = mean.operands
        number = n if mean.op == "arith.divf" else 1 / n
        found = isinstance(total, Load) and total.tensor == first.result and isinstance(by, Const) and isclose(by.value, number)
        return replace(self, about=first, squared=squared) if found else None

    def blocks_type(self, columns: int) -> ir.RankedTensorType:
        """Returns the type of what `blocks` makes."""
        extents = self.generic.extents
        return blocks_type([*extents[: self.outer], math.prod(extents[self.outer :])], self.outer, columns)

    def blocks(self, value: ir.Value, columns: int) -> ir.Value:
        """Emits the sums of blocks of `columns` columns. value: stands for `summed`."""
        shape, value = shape_of(value), emit_terms(self.generic, value)
        rows = [[i] for i in range(self.outer)]
        if len(shape) > self.outer + 1:
            flat = f32_tensor([*shape[: self.outer], math.prod(shape[self.outer :])])
            value = tensor.collapse_shape(flat, value, [*rows, list(range(self.outer, len(shape)))])
        return BlockSums(value, columns, self.outer, self.squared).emit()

    def _places(self, loops: Sequence[ir.AffineExpr]) -> list[ir.AffineExpr]:
        """Returns the indexing map of the result in loops over rows and blocks."""
        return [loops[terms[0][0]] if terms else ir.AffineConstantExpr.get(0) for _, terms in self.generic.maps[1]]

    def total(
        self, sums: ir.Value, init: ir.Value, parts: Mapping[ir.Value, ir.Value], totals: Mapping[ir.Value, ir.Value], columns: int
    ) -> ir.Value:
        """Emits the reduction's result from the sums of its blocks.

        sums     sums of blocks of this reduction
        parts    sums of blocks of each reduction, by its result
        totals   the new result of earlier reductions, by their result
        columns  columns of a block
        """
        g, rank = self.generic, self.outer + 1
        here = [ir.AffineDimExpr.get(d) for d in range(rank)]
        out = self._places(here)
        kinds = [*g.reduced[: self.outer], True]
        if self.about is None:
            return emit_sum(sums, init, kinds, out)
        n, mean = math.prod(g.extents[self.outer :]), self.about.result
        reduction = generic(
            g.op.results[0].type, [sums, parts[mean], totals[mean], init], [here, here, self.about._places(here), out], rank, kinds
        )

        def joined(squares: ir.Value, part: ir.Value, total: ir.Value, s: ir.Value) -> ir.Value:
            """Combines partial variances as Chan, Golub and LeVeque: only small terms cancel."""
            count = elements_of(rank - 1, n, columns)
            away = arith.subf(arith.divf(part, count), arith.divf(total, arith.constant(ir.F32Type.get(), float(n))))
            if not self.squared:
                return arith.addf(s, arith.mulf(count, away))
            return arith.addf(s, arith.addf(squares, arith.mulf(count, arith.mulf(away, away))))

        return with_body(reduction, joined)


def row_sums(body: Sequence[ir.Operation], columns: int) -> list[RowSum]:
    """Returns the row sums of a group's body. Raises Unfit if there are none, or other reductions, or one that depends on
    another and is not a sum of distances from its mean."""
    sums: list[RowSum] = []
    for op in filter(is_reduction, body):
        one = RowSum.read(op, columns)
        before = [s for s in sums if one.operand in dependents(body, [s.result])]
        about = next((centered for s in before if s.about is None and (centered := one.about_mean(s))), None)
        if before and about is None:
            raise Unfit("a sum along rows of what depends on another")
        sums.append(about or one)
    if not sums:
        raise Unfit("no sum along the rows of the product")
    return sums


def dependents(ops: Iterable[ir.Operation], on: Iterable[ir.Value]) -> set[ir.Value]:
    """Returns some values and all that depend on them through `ops`."""
    late = set(on)
    for op in ops:
        if not late.isdisjoint(read_by(op)):
            late.update(op.results)
    return late
