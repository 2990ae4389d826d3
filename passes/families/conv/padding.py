"""Zero padding of images."""

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith

from ...ir.reading import shape_of


def padded(image: ir.Value, before: Sequence[int], after: Sequence[int]) -> ir.Value:
    """Pads an image (batch, channels, height, width) with `before` and `after` zeros along height and width."""
    given = shape_of(image)
    shape = [*given[:2], *(b + n + a for b, n, a in zip(before, given[2:], after, strict=True))]
    element = ir.RankedTensorType(image.type).element_type
    zero = arith.constant(element, 0.0)
    pad = ir.Operation.create(
        "tensor.pad", results=[ir.RankedTensorType.get(shape, element)], operands=[image], regions=1,
        attributes={
            "static_low": ir.DenseI64ArrayAttr.get([0, 0, *before]),
            "static_high": ir.DenseI64ArrayAttr.get([0, 0, *after]),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0]),
        },
    )  # fmt: skip
    with ir.InsertionPoint(pad.regions[0].blocks.append(*[ir.IndexType.get()] * 4)):
        ir.Operation.create("tensor.yield", operands=[zero])
    return pad.results[0]


def past_the_end(sizes: Sequence[int], reach: Sequence[int], before: Sequence[int]) -> list[int]:
    """Returns the zeros needed after an image of `sizes` for windows that end at `reach`, counted from the first zero before it."""
    return [max(r - n - b, 0) for r, n, b in zip(reach, sizes, before, strict=True)]
