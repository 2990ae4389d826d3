"""Symbolic sizes in the IR: their forms in types, attributes and ops.

A tensor whose sizes are not all known carries them as the encoding of its type, in the text of core/sizes; an op that takes a
size as an operand takes the result of a `graph.size`:

    %n = graph.size {size = "s0~8"} : index
    %e = tensor.empty(%n) : tensor<?x16xf32, ["s0~8", 16]>

So any value's shape is read off its type, and equal types have equal sizes.
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from lamina.core.errors import CompileError
from lamina.core.layout import Layout
from lamina.core.sizes import Size, SizeLike, is_symbolic, maximum, parse

DYNAMIC = ir.ShapedType.get_dynamic_size()
SIZE = "graph.size"
KERNEL_SIZES = "tile.sizes"  # on a tile function: the sizes whose values its last argument holds


def sizes_of(type_: ir.Type) -> tuple[SizeLike, ...]:
    """Returns the shape of a tensor or memref type. Raises CompileError for an unknown size without a name."""
    shape = tuple(ir.ShapedType(type_).shape)
    if DYNAMIC not in shape:
        return shape
    encoding = type_.encoding if isinstance(type_, ir.RankedTensorType) else None
    if encoding is None:
        raise CompileError(
            f"{type_} has no static shape", remedy="compile per concrete size, or name its sizes (lamina-name-sizes)"
        )
    return read_sizes(encoding)


def tensor_type(shape: Sequence[SizeLike], element: ir.Type) -> ir.RankedTensorType:
    """Returns the tensor type of a shape, with its sizes where some are symbolic."""
    if not is_symbolic(tuple(shape)):
        return ir.RankedTensorType.get(list(shape), element)
    return ir.RankedTensorType.get(static_sizes(shape), element, encoding=sizes_attribute(shape))


def memref_type(layout: Layout, element: ir.Type) -> ir.MemRefType:
    """Returns the memref type of a layout, where symbolic sizes are unknown. Contiguous ones carry no strides, and none an
    offset."""
    if layout.is_row_major:
        return ir.MemRefType.get(static_sizes(layout.shape), element)
    return ir.MemRefType.get(static_sizes(layout.shape), element, layout=ir.StridedLayoutAttr.get(0, static_sizes(layout.strides)))


LAYOUT, LAYOUTS = "layout", "layouts"
"""On an op that yields one buffer or several: shape and strides, where some are symbolic."""


def layout_attributes(layout: Layout) -> dict[str, ir.Attribute]:
    """Returns the attribute that gives the shape and strides of memory, where some are symbolic."""
    if not is_symbolic(layout.shape) and not is_symbolic(layout.strides):
        return {}
    return {LAYOUT: ir.ArrayAttr.get([sizes_attribute(layout.shape), sizes_attribute(layout.strides)])}


def layout_of(value: ir.Value) -> Layout:
    """Returns the shape and strides of a buffer of a plan.program."""
    attributes = value.owner.attributes
    if LAYOUT in attributes:
        shape, strides = attributes[LAYOUT]
        return Layout(read_sizes(shape), read_sizes(strides), 0)
    if LAYOUTS in attributes:
        shape, strides = attributes[LAYOUTS][ir.OpResult(value).result_number]
        return Layout(read_sizes(shape), read_sizes(strides), 0)
    memref = ir.MemRefType(value.type)
    return Layout.of(memref.shape, memref.get_strides_and_offset()[0])  # MLIR has no strides for a tensor with a size of 0


def layouts_attribute(layouts: Sequence[Layout]) -> dict[str, ir.Attribute]:
    """Returns the attribute that gives the shapes and strides of several results, where some are symbolic."""
    if not any(map(layout_attributes, layouts)):
        return {}
    pairs = [ir.ArrayAttr.get([sizes_attribute(x.shape), sizes_attribute(x.strides)]) for x in layouts]
    return {LAYOUTS: ir.ArrayAttr.get(pairs)}


def sizes_attribute(sizes: Sequence[SizeLike]) -> ir.Attribute:
    """Returns sizes as an attribute: numbers alone as a dense array, others as an array of numbers and texts."""
    if not is_symbolic(tuple(sizes)):
        return ir.DenseI64ArrayAttr.get(list(sizes))
    return ir.ArrayAttr.get([size_attribute(n) for n in sizes])


def size_attribute(size: SizeLike) -> ir.Attribute:
    """Returns one size as an attribute: an i64, or its text."""
    return ir.StringAttr.get(str(size)) if isinstance(size, Size) else i64(size)


def number_attribute(number: Any, type_: ir.Type) -> ir.Attribute:
    """Returns a number as a float or integer attribute of a type."""
    return ir.FloatAttr.get(type_, float(number)) if isinstance(type_, ir.FloatType) else ir.IntegerAttr.get(type_, int(number))


def i64(n: int) -> ir.Attribute:
    """Returns a number as an attribute of type i64."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), n)


def read_sizes(attribute: ir.Attribute) -> tuple[SizeLike, ...]:
    """Reads the result of `sizes_attribute`."""
    if isinstance(attribute, ir.DenseI64ArrayAttr):
        return tuple(attribute)
    return tuple(map(read_size, attribute))


def read_size(attribute: ir.Attribute) -> SizeLike:
    """Reads the result of `size_attribute`."""
    if isinstance(attribute, ir.StringAttr):
        return parse(attribute.value)
    return ir.IntegerAttr(attribute).value


def size_on(op: ir.Operation, name: str) -> SizeLike:
    """Returns the size that the attribute of this name holds."""
    return read_size(op.attributes[name])


def size_value(size: SizeLike) -> ir.Value:
    """Creates the index value of a size at the current insertion point."""
    index = ir.IndexType.get()
    if isinstance(size, int):
        return arith.constant(index, size)
    return ir.Operation.create(SIZE, results=[index], attributes={"size": size_attribute(size)}).result


def size_of(value: ir.Value) -> SizeLike | None:
    """Returns the size that an index value is: a constant, or a graph.size. None for other values."""
    if isinstance(value, ir.BlockArgument):
        return None
    op = value.owner.operation if isinstance(value.owner, ir.OpView) else value.owner
    if op.name == SIZE:
        return read_size(op.attributes["size"])
    if op.name == "arith.constant" and isinstance(op.attributes["value"], ir.IntegerAttr):
        number: int = op.attributes["value"].value
        return number
    return None


def kernel_size(value: ir.Value) -> SizeLike | None:
    """Returns the symbolic size that a value of a tile function is: one that is loaded from its last argument. None for others."""
    if isinstance(value, ir.BlockArgument):
        return None
    op = value.owner.operation if isinstance(value.owner, ir.OpView) else value.owner
    if op.name == "arith.index_cast":
        return kernel_size(op.operands[0])
    if op.name != "memref.load" or not isinstance(op.operands[0], ir.BlockArgument):
        return None
    block = op.operands[0].owner
    known = block.owner.attributes.get(KERNEL_SIZES)
    if known is None or op.operands[0] != block.arguments[-1]:
        return None
    return read_size(known[ir.IntegerAttr(op.operands[1].owner.attributes["value"]).value])


UNIT = 1 << 30  # more than any number of a program, where sizes have 32 bits


def reciprocal(size: Size) -> SizeLike:
    """Returns UNIT / size, rounded up: a division of a number below UNIT by a symbolic size is a product with it."""
    return -(-UNIT // maximum(1, size))


def takes_values(function: ir.Operation) -> bool:
    """Returns whether a tile function's symbolic sizes are passed by value: whether lamina-distribute lowers it for a GPU."""
    return "tile.threads" in function.attributes and "tile.triton" not in function.attributes


def load_size(function: ir.Operation, size: Size, memory: ir.Value) -> ir.Value:
    """Loads the value of a tile function's symbolic size, as an index. memory: what stands for the function's last argument."""
    place = arith.constant(ir.IndexType.get(), read_sizes(function.attributes[KERNEL_SIZES]).index(size))
    return arith.index_cast(ir.IndexType.get(), memref.load(memory, [place]))


def static_sizes(sizes: Sequence[SizeLike]) -> list[int]:
    """Returns sizes as the static part of a type or of an op's attributes has them, with DYNAMIC for symbolic ones."""
    return [DYNAMIC if isinstance(n, Size) else n for n in sizes]


def size_operands(sizes: Sequence[SizeLike]) -> list[ir.Value]:
    """Creates the operands that a tensor.empty or a reshape takes for its symbolic sizes."""
    return [size_value(n) for n in sizes if isinstance(n, Size)]


_SEGMENTS = ("offsets", "sizes", "strides")


def slice_sizes(op: ir.Operation, name: str) -> tuple[SizeLike, ...] | None:
    """Returns the offsets, sizes or strides of a tensor.extract_slice or insert_slice, or the low or high padding of a tensor.pad;
    None if one is not a size that is known before the call."""
    static = list(ir.DenseI64ArrayAttr(op.attributes[f"static_{name}"]))
    if DYNAMIC not in static:
        return tuple(static)
    segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])) if "operandSegmentSizes" in op.attributes else []
    names = _SEGMENTS if name in _SEGMENTS else ("low", "high")
    first = len(segments) - len(names) + names.index(name)
    start = sum(segments[:first])
    dynamic = iter(list(op.operands)[start : start + segments[first]])
    found = [size_of(next(dynamic)) if n == DYNAMIC else n for n in static]
    return None if None in found else tuple(n for n in found if n is not None)
