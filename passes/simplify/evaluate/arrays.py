"""Converts between MLIR constants and numpy arrays.

numpy has no bf16: such values are f32 arrays whose values are bf16 numbers, rounded to nearest even after every op.
"""

import numpy as np
from torch_mlir import ir

from ...ir.dense_bytes import dense_bytes

Array = np.ndarray


class NotEvaluable(Exception):
    """Raised for an op without a value on arrays: unknown, undefined, or reading uninitialized elements."""


_DTYPES = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.float32, "index": np.int64, "i1": np.bool_,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
}  # fmt: skip


def dtype_of(element: ir.Type) -> type | None:
    """Returns the numpy dtype that holds this element type, or None when there is none."""
    return _DTYPES.get(str(element))


def is_bf16(element: ir.Type) -> bool:
    """Returns whether an element type is bf16."""
    return isinstance(element, ir.BF16Type)


def array_of(attribute: ir.Attribute) -> Array | None:
    """Returns the value of an arith.constant; a splat is broadcast (no memory behind it). None when it is not readable."""
    if isinstance(attribute, ir.FloatAttr | ir.IntegerAttr | ir.BoolAttr):
        dtype = dtype_of(attribute.type)
        return None if dtype is None else np.array(attribute.value, dtype)
    if not isinstance(attribute, ir.DenseElementsAttr):
        return None
    type_ = ir.ShapedType(attribute.type)
    dtype, shape = dtype_of(type_.element_type), tuple(type_.shape)
    if dtype is None:
        return None
    if 0 in shape:
        return np.zeros(shape, dtype)
    if attribute.is_splat:
        return np.broadcast_to(np.array(attribute.get_splat_value().value, dtype), shape)
    if is_bf16(type_.element_type):
        bits = np.frombuffer(dense_bytes(attribute), np.uint16)
        return (bits.astype(np.uint32) << 16).view(np.float32).reshape(shape)
    return np.array(attribute)


def attribute_of(x: Array, element: ir.Type, shape: tuple[int, ...]) -> ir.Attribute:
    """Builds the dense attribute of a tensor with these elements (a splat when all have the same bits)."""
    x = np.broadcast_to(x, shape)
    if is_bf16(element):
        packed = (np.ascontiguousarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    else:
        packed = np.ascontiguousarray(x, dtype_of(element))
    return ir.DenseElementsAttr.get(packed, type=element, shape=list(shape))


def bits_equal(x: Array) -> bool:
    """Returns whether all elements are the same value; -0.0 and 0.0 differ."""
    if x.size == 0 or all(stride == 0 or n == 1 for stride, n in zip(x.strides, x.shape, strict=True)):
        return True
    flat = np.ascontiguousarray(x).reshape(-1)
    raw = flat.view(np.uint8).reshape(flat.size, flat.itemsize)
    return bool((raw == raw[0]).all())
