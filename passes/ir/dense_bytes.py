"""The data of a dense constant."""

import re
import struct

from torch_mlir import ir

from lamina.core.errors import CompileError


def dense_bytes(value: ir.Attribute) -> bytes:
    """Row-major, little-endian; booleans one byte each."""
    if str(value).startswith("dense_resource<"):  # the bindings do not give a parsed one its class
        return _resource(value)
    element = str(ir.ShapedType(value.type).element_type)
    if element == "bf16":
        return _bf16(value)
    if element.startswith(("complex", "f8E", "f4E", "f6E")):
        raise CompileError(f"a constant of {element}", remedy="pass it as an input or a buffer of the module")
    return memoryview(value).tobytes()


def _resource(value: ir.Attribute) -> bytes:
    """Blobs can be read only from printed IR, where a resource is its alignment (four bytes) and its data in hex."""
    with value.context, ir.Location.unknown():
        holder = ir.Module.create()
        holder.operation.attributes["lamina.value"] = value
        found = re.search(r': "0x([0-9A-F]*)"', holder.operation.get_asm())
    if found is None:
        raise CompileError(f"a constant without its data: {value}")
    return bytes.fromhex(found[1])[4:]


def _bf16(value: ir.DenseElementsAttr) -> bytes:
    """The bindings do not read bf16: as a splat it has a value, else it is printed, as floats that round-trip or in hex."""
    count = 1
    for size in ir.ShapedType(value.type).shape:
        count *= size
    if value.is_splat:
        return _half_of_f32(value.get_splat_value().value) * count
    text = str(value).rpartition(" : ")[0]
    if whole := re.search(r'"0x([0-9A-F]*)"', text):
        return bytes.fromhex(whole[1])
    data = b""
    for token in re.findall(r"0x[0-9A-F]+|[-+0-9.eE]+", text.removeprefix("dense")):
        data += struct.pack("<H", int(token, 16)) if token.startswith("0x") else _half_of_f32(float(token))
    return data


def _half_of_f32(x: float) -> bytes:
    """A number that bf16 holds, or that prints one: rounded to nearest even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", x))
    if x == x:
        bits += 0x7FFF + (bits >> 16 & 1)
    return struct.pack("<H", bits >> 16 & 0xFFFF)
