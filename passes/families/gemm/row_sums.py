"""Row sums of a product in two steps: the GEMM kernel yields the sums of blocks of columns, and a second kernel adds these."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from ...ir.affine import NotAffine, SplitAxis
from ...ir.axes import Axes, splitting
from ...ir.copying import copy_ops, read_by
from ...ir.expressions import Apply, Const, Expr, Load
from ...ir.generics import empty, filled, generic, is_zero, with_body
from ...ir.reading import Generic, Untraceable, producer, shape_of
from ...space.contraction import Unfit
from ...trace.trace import Tracer
from .longer import f32, padded, unpadded

_CENTRED = "graph.centered"  # on sums of squared distances from the means of blocks


@dataclass(frozen=True)
class BlockSums:
    """Sums of `value`, f32 of shape [..., n], along blocks of `columns` elements of its last dimension. The last may be shorter.

    centered  sums the squared distance of each element from the mean of its block
    """

    value: ir.Value
    columns: int
    centered: bool = False

    @staticmethod
    def read(v: ir.Value) -> "BlockSums | None":
        """Recognizes what `emit` makes; None for other values."""
        op = producer(v)
        g = Generic.read(op) if op is not None and op.name == "linalg.generic" else None
        centered = g is not None and _CENTRED in g.op.attributes
        if g is None or not (centered or adds(g)) or g.reduced != (*[False] * (len(g.reduced) - 1), True):
            return None
        if not is_zero(g.op.operands[-1]):
            return None
        parts = producer(g.op.operands[0])
        if parts is None or parts.name != "tensor.expand_shape":
            return None
        whole = parts.operands[0]
        return BlockSums(unpadded(whole, len(shape_of(whole)) - 1, g.extents[-1]), g.extents[-1], centered)

    def emit(self) -> ir.Value:
        """Emits the sums, of shape [..., blocks]."""
        shape, rank = shape_of(self.value), len(shape_of(self.value))
        blocks = -(-shape[-1] // self.columns)
        whole = padded(self.value, rank - 1, blocks * self.columns)
        split = [*shape[:-1], blocks, self.columns]
        parts = tensor.expand_shape(f32(split), whole, [*([i] for i in range(rank - 1)), [rank - 1, rank]], [], split)
        dims = [ir.AffineDimExpr.get(d) for d in range(rank + 1)]
        of = [parts, BlockSums(self.value, self.columns).emit()] if self.centered else [parts]
        maps, kinds = [dims, *[dims[:-1]] * len(of)], [*[False] * rank, True]
        sums = generic(f32(split[:-1]), [*of, filled(f32(split[:-1]), 0.0)], maps, rank + 1, kinds)
        if not self.centered:
            return with_body(sums, lambda x, s: arith.addf(s, x))
        sums.attributes[_CENTRED] = ir.UnitAttr.get()

        def squares(x: ir.Value, total: ir.Value, s: ir.Value) -> ir.Value:
            left = arith.subi(_number(shape[-1]), arith.muli(_loop(rank - 1), _number(self.columns)))
            inside = arith.cmpi(arith.CmpIPredicate.slt, _loop(rank), left)
            away = arith.subf(x, arith.divf(total, _elements(rank - 1, shape[-1], self.columns)))
            away = arith.select(inside, away, arith.constant(ir.F32Type.get(), 0.0))
            return arith.addf(s, arith.mulf(away, away))

        return with_body(sums, squares)


@dataclass(frozen=True)
class SumReduction:
    """A sum reduction. of: the linalg.generic, which has one operand."""

    of: Generic

    @property
    def init(self) -> ir.Value:
        """The value that the sum starts from."""
        return self.of.op.operands[1]

    @property
    def result(self) -> ir.Value:
        """The result of the reduction."""
        return self.of.op.results[0]


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
        return self.of.op.operands[0]

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

    def about_mean(self, of: "RowSum") -> "RowSum | None":
        """Returns this with `about` set to `of`, where it sums distances from the mean by that sum, or their squares; else None."""
        plain = adds(self.of) and adds(of.of)
        if not plain or shape_of(self.operand) != shape_of(of.operand) or any(of.of.reduced[: of.outer]):
            return None
        axes = Axes(shape_of(self.operand))

        def build() -> tuple[Expr, Expr]:
            tracer = Tracer(lambda v: v == of.result)
            return tracer.element(self.operand, axes.index), tracer.element(of.operand, axes.index)

        try:
            away, x = splitting(build, axes)
        except (SplitAxis, NotAffine, Untraceable):
            return None
        squared = isinstance(away, Apply) and away.op == "arith.mulf" and away.operands[0] is away.operands[1]
        away = away.operands[0] if isinstance(away, Apply) and squared else away
        if not (isinstance(away, Apply) and away.op == "arith.subf" and away.operands[0] is x):
            return None
        mean, n = away.operands[1], math.prod(of.of.extents[of.outer :])
        if not isinstance(mean, Apply) or mean.op not in ("arith.divf", "arith.mulf"):
            return None
        total, by = mean.operands
        number = n if mean.op == "arith.divf" else 1 / n
        found = isinstance(total, Load) and total.tensor == of.result and isinstance(by, Const) and isclose(by.value, number)
        return replace(self, about=of, squared=squared) if found else None

    def blocks_type(self, columns: int) -> ir.RankedTensorType:
        """Returns the type of what `blocks` makes."""
        extents = self.of.extents
        return f32([*extents[: self.outer], -(-math.prod(extents[self.outer :]) // columns)])

    def blocks(self, value: ir.Value, columns: int) -> ir.Value:
        """Emits the sums of blocks of `columns` columns. value: stands for `summed`."""
        shape, value = shape_of(value), terms(self.of, value)
        rows = [[i] for i in range(self.outer)]
        if len(shape) > self.outer + 1:
            flat = f32([*shape[: self.outer], math.prod(shape[self.outer :])])
            value = tensor.collapse_shape(flat, value, [*rows, list(range(self.outer, len(shape)))])
        return BlockSums(value, columns, self.squared).emit()

    def _places(self, loops: Sequence[ir.AffineExpr]) -> list[ir.AffineExpr]:
        """Returns the indexing map of the result in loops over rows and blocks."""
        return [loops[terms[0][0]] if terms else ir.AffineConstantExpr.get(0) for _, terms in self.of.maps[1]]

    def total(
        self, sums: ir.Value, init: ir.Value, parts: Mapping[ir.Value, ir.Value], totals: Mapping[ir.Value, ir.Value], columns: int
    ) -> ir.Value:
        """Emits the reduction's result from the sums of its blocks.

        sums     sums of blocks of this reduction
        parts    sums of blocks of each reduction, by its result
        totals   the new result of earlier reductions, by their result
        columns  columns of a block
        """
        g, rank = self.of, self.outer + 1
        here = [ir.AffineDimExpr.get(d) for d in range(rank)]
        out = self._places(here)
        kinds = [*g.reduced[: self.outer], True]
        if self.about is None:
            made = generic(g.op.results[0].type, [sums, init], [here, out], rank, kinds)
            return with_body(made, lambda x, s: arith.addf(s, x))
        n, of = math.prod(g.extents[self.outer :]), self.about.result
        made = generic(
            g.op.results[0].type, [sums, parts[of], totals[of], init], [here, here, self.about._places(here), out], rank, kinds
        )

        def joined(squares: ir.Value, part: ir.Value, total: ir.Value, s: ir.Value) -> ir.Value:
            """Combines partial variances as Chan, Golub and LeVeque: only small terms cancel."""
            count = _elements(rank - 1, n, columns)
            away = arith.subf(arith.divf(part, count), arith.divf(total, arith.constant(ir.F32Type.get(), float(n))))
            if not self.squared:
                return arith.addf(s, arith.mulf(count, away))
            return arith.addf(s, arith.addf(squares, arith.mulf(count, arith.mulf(away, away))))

        return with_body(made, joined)


def row_sums(body: Sequence[ir.Operation], columns: int) -> list[RowSum]:
    """Returns the row sums of a group's body. Raises Unfit where there are none, or other reductions, or one that depends on
    another and is no sum of distances from its mean."""
    found: list[RowSum] = []
    for op in filter(is_reduction, body):
        one = RowSum.read(op, columns)
        before = [s for s in found if one.operand in depending(body, [s.result])]
        about = next((made for s in before if s.about is None and (made := one.about_mean(s))), None)
        if before and about is None:
            raise Unfit("a sum along rows of what depends on another")
        found.append(about or one)
    if not found:
        raise Unfit("no sum along the rows of the product")
    return found


def depending(ops: Iterable[ir.Operation], on: Iterable[ir.Value]) -> set[ir.Value]:
    """Returns some values and all that depend on them through `ops`."""
    late = set(on)
    for op in ops:
        if not late.isdisjoint(read_by(op)):
            late.update(op.results)
    return late


def sum_of_f32(op: ir.Operation) -> Generic:
    """Reads an f32 sum reduction; raises Unfit for other ops."""
    g = Generic.read(op)
    if term(g) is None or str(ir.RankedTensorType(op.results[0].type).element_type) != "f32":
        raise Unfit("a reduction that is no sum of f32")
    return g


def is_reduction(op: ir.Operation) -> bool:
    """Returns whether an op is a linalg.generic with a reduction loop."""
    return op.name == "linalg.generic" and any("reduction" in str(kind) for kind in op.attributes["iterator_types"])


def terms(g: Generic, value: ir.Value) -> ir.Value:
    """Emits the terms that a sum adds, its body applied to each element of `value`; `value` itself if that is no change."""
    if adds(g):
        return value
    shape, rank = shape_of(value), len(shape_of(value))
    dims = [ir.AffineDimExpr.get(d) for d in range(rank)]
    made = generic(f32(shape), [value, empty(f32(shape))], [dims, dims], rank, [False] * rank)

    def body(x: ir.Value, _: ir.Value) -> ir.Value:
        *ops, _, _ = g.block.operations
        values = {g.block.arguments[0]: x}
        copy_ops(ops, values)
        return values[term(g)]

    return with_body(made, body)


def _number(n: int) -> ir.Value:
    return arith.constant(ir.IndexType.get(), n)


def _loop(dim: int) -> ir.Value:
    """Emits linalg.index: a loop's position."""
    at = {"dim": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim)}
    return ir.Operation.create("linalg.index", results=[ir.IndexType.get()], attributes=at).results[0]


def _elements(loop: int, n: int, columns: int) -> ir.Value:
    """Emits the number of elements, f32, of the block at a loop's position, where blocks of `columns` cover n elements."""
    left = arith.subi(_number(n), arith.muli(_loop(loop), _number(columns)))
    count = arith.select(arith.cmpi(arith.CmpIPredicate.slt, left, _number(columns)), left, _number(columns))
    return arith.sitofp(ir.F32Type.get(), arith.index_cast(ir.IntegerType.get_signless(32), count))


def adds(g: Generic) -> bool:
    """Returns whether a generic sums the elements of its one operand as they are, with an identity map."""
    found = term(g)
    return found is not None and found == g.block.arguments[0]


def term(g: Generic) -> ir.Value | None:
    """Returns the value in a generic's body that it adds up, with one operand and an identity map; None for other generics."""
    whole = tuple((0, ((i, 1),)) for i in range(len(g.reduced)))
    if not any(g.reduced) or g.inputs != 1 or g.maps[0] != whole:
        return None
    add, sum_ = list(g.block.operations)[-2].operation if len(g.block.operations) > 1 else None, g.block.arguments[1]
    if add is None or add.name != "arith.addf" or g.yields[0] != add.results[0] or len(list(sum_.uses)) != 1:
        return None
    one, other = add.operands
    return other if one == sum_ else one if other == sum_ else None
