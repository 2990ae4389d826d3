"""Writes values, types and literals as text for people."""

import re
from collections.abc import Container, Mapping

from torch_mlir import ir

from lamina.core.sizes import readable
from lamina.passes.ir.sizes import sizes_of

_STRIDED = re.compile(r"strided<\[(.*?)\](?:, offset: (\S+?))?>")
_UNITS = ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K"))


def type_text(type_: ir.Type) -> str:
    """Returns "4x16xf32" for tensors and memrefs, "<16xf32>" for vectors, and MLIR's own text for other types."""
    if isinstance(type_, ir.VectorType):
        return f"<{_shaped(type_)}>"
    if isinstance(type_, ir.RankedTensorType):
        return _shaped(type_)
    if isinstance(type_, ir.MemRefType):
        strides = _STRIDED.search(str(type_))
        return _shaped(type_) + (f" strides [{strides[1]}]" if strides else "")
    return str(type_)


def _shaped(type_: ir.ShapedType) -> str:
    return "x".join((*size_texts(type_), str(type_.element_type)))


def size_texts(type_: ir.ShapedType) -> list[str]:
    """Returns the sizes of a type: numbers, expressions of symbols where the type carries them, else "?"."""
    if isinstance(type_, ir.RankedTensorType) and type_.encoding is not None:
        texts = map(readable, sizes_of(type_))
        return [f"({text})" if not text.isalnum() else text for text in texts]
    return ["?" if type_.is_dynamic_dim(i) else str(type_.get_dim_size(i)) for i in range(type_.rank)]


def literal(attribute: ir.Attribute) -> str:
    """Returns a number or a text as Python would write it, a splat as its element, other attributes as MLIR writes them."""
    if isinstance(attribute, ir.BoolAttr):
        return str(attribute.value).lower()
    if isinstance(attribute, ir.IntegerAttr):
        return str(attribute.value)
    if isinstance(attribute, ir.FloatAttr):
        return f"{attribute.value:.6g}"
    if isinstance(attribute, ir.StringAttr):
        return str(attribute.value)
    if isinstance(attribute, ir.ArrayAttr):
        return f"[{', '.join(map(literal, attribute))}]"
    if isinstance(attribute, ir.DenseI64ArrayAttr):
        return str(list(attribute))
    if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
        return literal(attribute.get_splat_value())
    if isinstance(attribute, ir.DenseElementsAttr | ir.DenseResourceElementsAttr):
        return f"constant : {type_text(attribute.type)}"
    return str(attribute)


def marks(attributes: Mapping[str, ir.Attribute], without: Container[str]) -> str:
    """Returns attributes as "a = 1, b": units by their names alone."""
    kept = [(name, attributes[name]) for name in attributes if name not in without]
    return ", ".join(name if isinstance(given, ir.UnitAttr) else f"{name} = {literal(given)}" for name, given in kept)


def bytes_text(number: int) -> str:
    """Returns "512K" for whole multiples of powers of 1024, "0" or "100" for other numbers."""
    for unit, letter in _UNITS:
        if number and number % unit == 0:
            return f"{number // unit}{letter}"
    return str(number)


class Names:
    """Gives each value of a function a name when it is first written.

    A value stands for the text that it was set to, such as a literal, or gets the next number.
    """

    def __init__(self) -> None:
        self._texts: dict[ir.Value, str] = {}
        self._next = 0

    def __contains__(self, value: ir.Value) -> bool:
        return value in self._texts

    def __getitem__(self, value: ir.Value) -> str:
        """Returns the value's text; numbers the value if it has none."""
        if value not in self._texts:
            self._texts[value] = f"%{self._next}"
            self._next += 1
        return self._texts[value]

    def __setitem__(self, value: ir.Value, text: str) -> None:
        self._texts[value] = text
