"""Element types in the simulator's memory."""

import numpy as np
from torch_mlir import ir

from lamina.passes.simplify.evaluate import arrays

FLOAT8 = ("f8E4M3FN", "f8E5M2")


def dtype_of(element: ir.Type) -> type | None:
    """Returns the dtype that constants have; eight-bit floats are their bits, which only bitcasts may read."""
    return np.int8 if str(element) in FLOAT8 else arrays.dtype_of(element)


def array_of(attribute: ir.Attribute) -> arrays.Array | None:
    """Returns the value of a constant; for eight-bit floats only zero."""
    splat = attribute.get_splat_value() if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat else attribute
    if isinstance(splat, ir.FloatAttr) and str(splat.type) in FLOAT8 and not splat.value:
        return np.zeros(ir.ShapedType(attribute.type).shape if splat is not attribute else (), np.int8)
    return arrays.array_of(attribute)
