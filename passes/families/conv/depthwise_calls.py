"""Recognizes calls of depthwise convolutions that Lamina's CPU kernels may compute."""

import math

from torch_mlir import ir

from ...ir.reading import shape_of

_CONVOLUTION = "aten.convolution.default"
_TAPS = 64  # elements of the largest window


def is_depthwise(op: ir.Operation) -> bool:
    """Returns whether a graph.extern is an f32 convolution with one filter per channel and a window of 2 to 64 elements."""
    if op.name != "graph.extern" or ir.StringAttr(op.attributes["callee"]).value != _CONVOLUTION:
        return False
    transposed, groups = (ir.ArrayAttr(op.attributes["args"])[i] for i in (6, 8))
    image, weight, result = (shape_of(v) for v in (op.operands[0], op.operands[1], op.results[0]))
    types = {str(ir.RankedTensorType(v.type).element_type) for v in (*op.operands, op.results[0])}
    return (
        types == {"f32"}
        and len(image) == 4
        and not ir.BoolAttr(transposed).value
        and 0 not in (*image, *weight, *result)
        and ir.IntegerAttr(groups).value == image[1] == weight[0]
        and 1 < math.prod(weight[1:]) <= _TAPS
    )
