"""Sums over blocks of rows or columns of a product: the part of a reduction that a GEMM kernel computes in its epilogue."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith

from ...ir.generics import filled, generic, in_parts, is_zero, padded, spread, with_body
from ...ir.reading import Generic, identity_map, producer, shape_of, terminator
from ...ir.rewriting import copy_ops
from ...space.contraction import Unfit

_CENTERED = "graph.centered"  # on sums of squared distances from the means of blocks


@dataclass(frozen=True)
class BlockSums:
    """Sums of `value`, in f32, along blocks of `size` elements of one dimension. The last block may be shorter.

    along     the dimension: the last of [..., n], or the first of [m, n]
    centered  sums the squared distance of each element from the mean of its block
    """

    value: ir.Value
    size: int
    along: int
    centered: bool = False

    @staticmethod
    def read(v: ir.Value) -> "BlockSums | None":
        """Recognizes what `emit` makes, or a model's sum of that form; None for other values."""
        op = producer(v)
        g = Generic.read(op) if op is not None and op.name == "linalg.generic" else None
        if g is None or g.reduced.count(True) != 1 or not is_zero(g.op.operands[-1]):
            return None
        along, rank, centered = g.reduced.index(True) - 1, len(g.reduced) - 1, _CENTERED in g.op.attributes
        parts = producer(g.op.operands[0])
        if parts is None or parts.name != "tensor.expand_shape" or not (centered or is_plain_sum(g)):
            return None
        size, kept = g.extents[along + 1], tuple((0, ((d, 1),)) for d in range(rank + 1) if d != along + 1)
        whole = (*g.extents[:along], g.extents[along] * size, *g.extents[along + 2 :])
        known = (along, rank) in ((rank - 1, rank), (0, 2)) and g.result_map == kept and shape_of(parts.operands[0]) == whole
        return BlockSums(_unpadded(parts.operands[0], along, size), size, along, centered) if known else None

    @property
    def is_along_rows(self) -> bool:
        """Whether elements of one row are summed."""
        return self.along == len(shape_of(self.value)) - 1

    @property
    def type(self) -> ir.RankedTensorType:
        """The type of the sums: that of the value with blocks in the place of elements."""
        return blocks_type(shape_of(self.value), self.along, self.size)

    def emit(self) -> ir.Value:
        """Emits the sums."""
        shape, along = shape_of(self.value), self.along
        rank, n, blocks = len(shape), shape[along], self.type.shape[along]
        high = [blocks * self.size - n if d == along else 0 for d in range(rank)]
        parts = in_parts(padded(self.value, [0] * rank, high) if any(high) else self.value, along, blocks)
        dims = [ir.AffineDimExpr.get(d) for d in range(rank + 1)]
        out = dims[: along + 1] + dims[along + 2 :]
        terms = [parts, BlockSums(self.value, self.size, along).emit()] if self.centered else [parts]
        kinds = [d == along + 1 for d in range(rank + 1)]
        sums = generic(self.type, [*terms, filled(self.type, 0.0)], [dims, *[out] * len(terms)], rank + 1, kinds)
        if not self.centered:
            return with_body(sums, lambda x, s: arith.addf(s, x))
        sums.attributes[_CENTERED] = ir.UnitAttr.get()

        def squares(x: ir.Value, total: ir.Value, s: ir.Value) -> ir.Value:
            """Adds the squared distances from a block's mean."""
            left = arith.subi(_number(n), arith.muli(_loop(along), _number(self.size)))
            inside = arith.cmpi(arith.CmpIPredicate.slt, _loop(along + 1), left)
            away = arith.subf(x, arith.divf(total, elements_of(along, n, self.size)))
            away = arith.select(inside, away, arith.constant(ir.F32Type.get(), 0.0))
            return arith.addf(s, arith.mulf(away, away))

        return with_body(sums, squares)


@dataclass(frozen=True)
class SumReduction:
    """A sum reduction of a product's result. generic: the linalg.generic, which has one operand."""

    generic: Generic

    @property
    def init(self) -> ir.Value:
        """The value that the sum starts from."""
        return self.generic.op.operands[1]

    @property
    def result(self) -> ir.Value:
        """The result of the reduction."""
        return self.generic.op.results[0]


def blocks_type(shape: Sequence[int], along: int, size: int) -> ir.RankedTensorType:
    """Returns the type of the sums of blocks of `size` elements along a dimension."""
    return f32_tensor([-(-n // size) if d == along else n for d, n in enumerate(shape)])


def emit_sum(value: ir.Value, init: ir.Value, reduced: Sequence[bool], out: Sequence[ir.AffineExpr]) -> ir.Value:
    """Emits the sum of a tensor over its reduced dimensions, from `init`. out: the indexing map of the result."""
    dims = [ir.AffineDimExpr.get(d) for d in range(len(reduced))]
    sums = generic(init.type, [value, init], [dims, out], len(reduced), reduced)
    return with_body(sums, lambda x, s: arith.addf(s, x))


def f32_tensor(shape: Iterable[int]) -> ir.RankedTensorType:
    """Returns the type of an f32 tensor of this shape."""
    return ir.RankedTensorType.get(list(shape), ir.F32Type.get())


def _unpadded(value: ir.Value, dim: int, least: int) -> ir.Value:
    """Looks through a padding by fewer than `least` zeros at the end of `dim`; returns other values as they are."""
    op = producer(value)
    if op is None or op.name != "tensor.pad" or len(op.operands) != 1:
        return value
    low, high = (list(ir.DenseI64ArrayAttr(op.attributes[f"static_{side}"])) for side in ("low", "high"))
    number = producer(terminator(op.regions[0].blocks[0]).operands[0])
    zero = number is not None and number.name == "arith.constant" and ir.FloatAttr(number.attributes["value"]).value == 0.0
    there = not any(low) and not any(n for d, n in enumerate(high) if d != dim) and high[dim] < least
    return op.operands[0] if zero and there else value


def sum_of_f32(op: ir.Operation) -> Generic:
    """Reads an f32 sum reduction; raises Unfit for other ops."""
    g = Generic.read(op)
    if summed_term(g) is None or str(ir.RankedTensorType(op.results[0].type).element_type) != "f32":
        raise Unfit("a reduction that is not a sum of f32")
    return g


def is_reduction(op: ir.Operation) -> bool:
    """Returns whether an op is a linalg.generic with a reduction loop."""
    return op.name == "linalg.generic" and any("reduction" in str(kind) for kind in op.attributes["iterator_types"])


def emit_terms(g: Generic, value: ir.Value) -> ir.Value:
    """Emits the terms that a sum adds, its body applied to each element of `value`; `value` itself if that is no change."""
    if is_plain_sum(g):
        return value

    def body(x: ir.Value) -> ir.Value:
        """Computes the term that is summed."""
        *ops, _, _ = g.block.operations
        values = {g.block.arguments[0]: x}
        copy_ops(ops, values)
        return values[summed_term(g)]

    return spread(value, f32_tensor(shape_of(value)), make=body)


def _number(n: int) -> ir.Value:
    return arith.constant(ir.IndexType.get(), n)


def _loop(dim: int) -> ir.Value:
    """Emits linalg.index: a loop's position."""
    at = {"dim": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim)}
    return ir.Operation.create("linalg.index", results=[ir.IndexType.get()], attributes=at).results[0]


def elements_of(loop: int, n: int, columns: int) -> ir.Value:
    """Emits the number of elements, f32, of the block at a loop's position, where blocks of `columns` cover n elements."""
    left = arith.subi(_number(n), arith.muli(_loop(loop), _number(columns)))
    count = arith.select(arith.cmpi(arith.CmpIPredicate.slt, left, _number(columns)), left, _number(columns))
    return arith.sitofp(ir.F32Type.get(), arith.index_cast(ir.IntegerType.get_signless(32), count))


def is_plain_sum(g: Generic) -> bool:
    """Returns whether a generic sums the elements of its one operand as they are, with an identity map."""
    found = summed_term(g)
    return found is not None and found == g.block.arguments[0]


def summed_term(g: Generic) -> ir.Value | None:
    """Returns the value in a generic's body that it adds up, with one operand and an identity map; None for other generics."""
    if not any(g.reduced) or g.inputs != 1 or g.maps[0] != identity_map(len(g.reduced)):
        return None
    add, sum_ = list(g.block.operations)[-2].operation if len(g.block.operations) > 1 else None, g.block.arguments[1]
    if add is None or add.name != "arith.addf" or g.yields[0] != add.results[0] or len(list(sum_.uses)) != 1:
        return None
    one, other = add.operands
    return other if one == sum_ else one if other == sum_ else None
