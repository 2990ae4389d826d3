"""Emits ops that bring operands and results into the form of torch's attention kernels: longer rows, more heads, another rank."""

from collections.abc import Sequence

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from ....ir import generics, reshapes
from ....ir.reading import shape_of
from ....ir.sizes import size_operands, static_sizes, tensor_type
from ...surroundings import ValueMap, group_before

_SPLIT = [[0], [1, 2], [3], [4]]  # heads of keys, and repetitions
_LAST = [[0], [1], [2, 3]]  # a last dimension of 1


def padded(value: ir.Value, axis: int, more: int, fill: float = 0.0) -> ir.Value:
    """Returns a tensor that is longer along a dimension by `more` elements of `fill`, which a new group computes."""
    if not more:
        return value
    high = [more if d == axis else 0 for d in range(len(shape_of(value)))]
    type_ = _type([n + m for n, m in zip(shape_of(value), high, strict=True)], value)

    def fill_in(values: ValueMap) -> list[ir.Value]:
        """Pads the operand in a group of its own."""
        return [generics.padded(values[value], [0] * len(high), high, fill)]

    return group_before(ir.InsertionPoint.current.ref_operation, [], {value: value}, [type_], fill_in, "padded").results[0]


def sliced(value: ir.Value, sizes: Sequence[int]) -> ir.Value:
    """Returns the view of a tensor's first elements of these sizes."""
    if tuple(sizes) == shape_of(value):
        return value
    return reshapes.sliced(value, [0] * len(sizes), sizes, [1] * len(sizes))


def spread(value: ir.Value, sizes: Sequence[int], dims: Sequence[int] = (0, 1, 2, 3)) -> ir.Value:
    """Returns the view of a tensor that repeats it along dimensions of size 1 and new ones.

    sizes  of the result
    dims   of the result that are the tensor's, in order
    """
    if tuple(sizes) == shape_of(value):
        return value
    reads = [None if n == 1 else d for n, d in zip(shape_of(value), dims, strict=True)]
    return generics.spread(value, _type(sizes, value), reads)


def repeat_heads(value: ir.Value, heads: int) -> ir.Value:
    """Repeats the heads of a tensor (batch, some heads, length, size) until there are `heads` of them."""
    batch, shared, length, size = shape_of(value)
    if shared == heads:
        return value
    wide = spread(value, (batch, shared, heads // shared, length, size), (0, 1, 3, 4))
    return tensor.CollapseShapeOp(_type((batch, heads, length, size), value), wide, _SPLIT).result


def with_one(value: ir.Value) -> ir.Value:
    """Returns a tensor of three dimensions with a fourth of size 1."""
    sizes = [*shape_of(value), 1]
    return tensor.ExpandShapeOp(_type(sizes, value), value, _LAST, size_operands(sizes), static_sizes(sizes)).result


def without_one(value: ir.Value) -> ir.Value:
    """Returns a tensor of four dimensions without the last, of size 1."""
    return tensor.CollapseShapeOp(_type(shape_of(value)[:3], value), value, _LAST).result


def dropout_placeholder(shape: Sequence[int]) -> ir.Value:
    """Emits a placeholder for the state of dropout, of which nothing is read if no numbers are drawn."""
    type_ = ir.RankedTensorType.get(list(shape), ir.IntegerType.get_signless(64))
    return arith.constant(type_, ir.DenseElementsAttr.get(np.zeros(shape, np.int64), type=type_))


def _type(sizes: Sequence[int], like: ir.Value) -> ir.RankedTensorType:
    return tensor_type(sizes, ir.RankedTensorType(like.type).element_type)
