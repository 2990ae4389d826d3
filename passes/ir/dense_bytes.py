"""Reads the data of dense constants as raw bytes."""

import math
import re
import struct

import numpy as np
from torch_mlir import ir

from lamina.core.errors import CompileError


def dense_bytes(value: ir.Attribute) -> bytes:
    """Returns the elements of a dense attribute: row-major, little-endian, booleans one byte each.

    Raises CompileError for complex, f8, f6 and f4 elements, and for a resource whose data is missing.
    """
    if str(value).startswith("dense_resource<"):  # the bindings give a parsed one no class of its own
        return _resource(value)
    element = str(ir.ShapedType(value.type).element_type)
    if element == "bf16":
        return _bf16(value)
    if element.startswith(("complex", "f8E", "f4E", "f6E")):
        raise CompileError(f"a constant of {element}", remedy="pass it as an input or a buffer of the module")
    return memoryview(value).tobytes()


def _resource(value: ir.Attribute) -> bytes:
    """Reads a blob from printed IR, the only way: a resource is printed as its alignment (four bytes) and its data in hex."""
    with value.context, ir.Location.unknown():
        holder = ir.Module.create()
        holder.operation.attributes["lamina.value"] = value
        found = re.search(r': "0x([0-9A-F]*)"', holder.operation.get_asm())
    if found is None:
        raise CompileError(f"a constant without its data: {value}")
    return bytes.fromhex(found[1])[4:]


def _bf16(value: ir.DenseElementsAttr) -> bytes:
    """Reads bf16, which the bindings do not: a splat has a value; other constants are printed as round-trip floats or in hex."""
    if value.is_splat:
        return _half_of_f32(value.get_splat_value().value) * math.prod(ir.ShapedType(value.type).shape)
    text = str(value).rpartition(" : ")[0]
    if whole := re.search(r'"0x([0-9A-F]*)"', text):
        return bytes.fromhex(whole[1])
    data = b""
    for token in re.findall(r"0x[0-9A-F]+|[-+0-9.eE]+", text.removeprefix("dense")):
        data += struct.pack("<H", int(token, 16)) if token.startswith("0x") else _half_of_f32(float(token))
    return data


def round_bf16(x: np.ndarray) -> np.ndarray:
    """Rounds f32 values to the nearest bf16, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
    return np.where(np.isnan(x), np.float32(np.nan), rounded).reshape(np.shape(x))


def _half_of_f32(x: float) -> bytes:
    """Returns the two bytes of `x` as bf16."""
    return round_bf16(np.array(x, np.float32)).tobytes()[2:]
