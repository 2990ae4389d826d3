"""Zeros behind a dimension of a tensor of f32, so that blocks of one size cover it."""

from collections.abc import Iterable

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from ...ir.reading import producer, shape_of


def f32(shape: Iterable[int]) -> ir.RankedTensorType:
    """Of a tensor of f32."""
    return ir.RankedTensorType.get(list(shape), ir.F32Type.get())


def unpadded(value: ir.Value, dim: int, least: int) -> ir.Value:
    """What `padded` made fewer than `least` elements longer; another value as it is."""
    op = producer(value)
    if op is None or op.name != "tensor.pad" or len(op.operands) != 1:
        return value
    low, high = (list(ir.DenseI64ArrayAttr(op.attributes[f"static_{side}"])) for side in ("low", "high"))
    number = producer(list(op.regions[0].blocks[0].operations)[-1].operands[0])
    zero = number is not None and number.name == "arith.constant" and ir.FloatAttr(number.attributes["value"]).value == 0.0
    there = not any(low) and not any(n for d, n in enumerate(high) if d != dim) and high[dim] < least
    return op.operands[0] if zero and there else value


def padded(value: ir.Value, dim: int, size: int) -> ir.Value:
    """With zeros behind a dimension, which has `size` elements then."""
    shape, rank = shape_of(value), len(shape_of(value))
    if size == shape[dim]:
        return value
    high = [size - shape[dim] if d == dim else 0 for d in range(rank)]
    pad = tensor.PadOp(f32([n + more for n, more in zip(shape, high, strict=True)]), value, [], [], [0] * rank, high)
    with ir.InsertionPoint(pad.regions[0].blocks.append(*[ir.IndexType.get()] * rank)):
        tensor.YieldOp(arith.constant(ir.F32Type.get(), 0.0))
    return pad.result
