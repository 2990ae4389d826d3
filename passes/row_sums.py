"""Sums along the rows of a product, in two steps: those of each block's columns, which the product's kernel yields, and theirs."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from .contraction import Unfit
from .generics import filled, generic, with_body
from .reading import Generic, producer, shape_of


@dataclass(frozen=True)
class BlockSums:
    """`value`, f32 of shape [..., n], summed along blocks of `columns` elements of its last dimension. The last may be shorter."""

    value: ir.Value
    columns: int

    @staticmethod
    def read(v: ir.Value) -> "BlockSums | None":
        """What `emit` has made; None for another value."""
        op = producer(v)
        g = Generic.read(op) if op is not None and op.name == "linalg.generic" else None
        if g is None or not _adds(g) or g.reduced != (*[False] * (len(g.reduced) - 1), True):
            return None
        parts = producer(g.op.operands[0])
        if parts is None or parts.name != "tensor.expand_shape":
            return None
        whole = parts.operands[0]
        padded = producer(whole)
        if padded is not None and padded.name == "tensor.pad":
            whole = padded.operands[0]
        return BlockSums(whole, g.extents[-1])

    def emit(self) -> ir.Value:
        """The sums, of shape [..., blocks]."""
        shape, rank = shape_of(self.value), len(shape_of(self.value))
        blocks = -(-shape[-1] // self.columns)
        whole = _padded(self.value, blocks * self.columns)
        split = [*shape[:-1], blocks, self.columns]
        parts = tensor.expand_shape(_f32(split), whole, [*([i] for i in range(rank - 1)), [rank - 1, rank]], [], split)
        dims = [ir.AffineDimExpr.get(d) for d in range(rank + 1)]
        sums = generic(
            _f32(split[:-1]), [parts, filled(_f32(split[:-1]), 0.0)], [dims, dims[:-1]], rank + 1, [*[False] * rank, True]
        )
        return with_body(sums, lambda x, s: arith.addf(s, x))


@dataclass(frozen=True)
class RowSum:
    """A reduction along whole rows of a product, and maybe over rows, too.

    of     the linalg.generic, which sums its one operand
    outer  its loops over rows; the others are over the elements of one
    """

    of: Generic
    outer: int

    @property
    def operand(self) -> ir.Value:
        return self.of.op.operands[0]

    @property
    def init(self) -> ir.Value:
        return self.of.op.operands[1]

    @property
    def result(self) -> ir.Value:
        return self.of.op.results[0]

    @staticmethod
    def read(op: ir.Operation, columns: int) -> "RowSum":
        """columns: elements of a row. Unfit where it is none."""
        g = Generic.read(op)
        if not _adds(g) or str(ir.RankedTensorType(op.operands[0].type).element_type) != "f32":
            raise Unfit("a reduction that is no sum of f32")
        outer, size = len(g.extents), 1
        while size < columns and outer:
            outer -= 1
            size *= g.extents[outer]
        if columns == 1 or size != columns or not all(g.reduced[outer:]):
            raise Unfit("a reduction that is not along the rows of the product")
        return RowSum(g, outer)

    def blocks_type(self, columns: int) -> ir.RankedTensorType:
        """Of what `blocks` makes."""
        extents = self.of.extents
        return _f32([*extents[: self.outer], -(-math.prod(extents[self.outer :]) // columns)])

    def blocks(self, value: ir.Value, columns: int) -> ir.Value:
        """Sums of blocks of so many columns. value: what is summed."""
        shape = shape_of(value)
        rows = [[i] for i in range(self.outer)]
        if len(shape) > self.outer + 1:
            flat = _f32([*shape[: self.outer], math.prod(shape[self.outer :])])
            value = tensor.collapse_shape(flat, value, [*rows, list(range(self.outer, len(shape)))])
        return BlockSums(value, columns).emit()

    def total(self, sums: ir.Value, init: ir.Value) -> ir.Value:
        """What the reduction gives, from the sums of blocks and what it begins with."""
        g, rank = self.of, self.outer + 1
        here = [ir.AffineDimExpr.get(d) for d in range(rank)]
        out = [here[terms[0][0]] if terms else ir.AffineConstantExpr.get(0) for _, terms in g.maps[1]]
        made = generic(g.op.results[0].type, [sums, init], [here, out], rank, [*g.reduced[: self.outer], True])
        return with_body(made, lambda x, s: arith.addf(s, x))


def is_reduction(op: ir.Operation) -> bool:
    return op.name == "linalg.generic" and any("reduction" in str(kind) for kind in op.attributes["iterator_types"])


def _padded(value: ir.Value, size: int) -> ir.Value:
    """With zeros behind the last dimension, which has `size` elements then."""
    *outer, last = shape_of(value)
    if size == last:
        return value
    rank = len(outer) + 1
    pad = tensor.PadOp(_f32([*outer, size]), value, [], [], [0] * rank, [*[0] * (rank - 1), size - last])
    with ir.InsertionPoint(pad.regions[0].blocks.append(*[ir.IndexType.get()] * rank)):
        tensor.YieldOp(arith.constant(ir.F32Type.get(), 0.0))
    return pad.result


def _f32(shape: Iterable[int]) -> ir.RankedTensorType:
    return ir.RankedTensorType.get(list(shape), ir.F32Type.get())


def _adds(g: Generic) -> bool:
    """Whether a generic sums the elements of its one operand, loop by dimension."""
    ops = [o.operation for o in g.block.operations]
    whole = tuple((0, ((i, 1),)) for i in range(len(g.reduced)))
    return (
        any(g.reduced)
        and g.inputs == 1
        and g.maps[0] == whole
        and [o.name for o in ops] == ["arith.addf", "linalg.yield"]
        and set(ops[0].operands) == set(g.block.arguments)
    )
