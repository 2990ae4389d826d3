"""Pads a dimension of an f32 tensor with zeros at its end, so that blocks of one size cover it."""

from collections.abc import Iterable

from torch_mlir import ir

from ...ir import generics
from ...ir.reading import producer, shape_of


def f32(shape: Iterable[int]) -> ir.RankedTensorType:
    """Returns the type of an f32 tensor of this shape."""
    return ir.RankedTensorType.get(list(shape), ir.F32Type.get())


def unpadded(value: ir.Value, dim: int, least: int) -> ir.Value:
    """Looks through `padded` where it added fewer than `least` elements along `dim`; returns other values as they are."""
    op = producer(value)
    if op is None or op.name != "tensor.pad" or len(op.operands) != 1:
        return value
    low, high = (list(ir.DenseI64ArrayAttr(op.attributes[f"static_{side}"])) for side in ("low", "high"))
    number = producer(list(op.regions[0].blocks[0].operations)[-1].operands[0])
    zero = number is not None and number.name == "arith.constant" and ir.FloatAttr(number.attributes["value"]).value == 0.0
    there = not any(low) and not any(n for d, n in enumerate(high) if d != dim) and high[dim] < least
    return op.operands[0] if zero and there else value


def padded(value: ir.Value, dim: int, size: int) -> ir.Value:
    """Pads a dimension with zeros at its end to `size` elements."""
    shape, rank = shape_of(value), len(shape_of(value))
    if size == shape[dim]:
        return value
    high = [size - shape[dim] if d == dim else 0 for d in range(rank)]
    return generics.padded(value, [0] * rank, high)
