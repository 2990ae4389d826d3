"""Types of scalars and blocks, and ops on them that do not depend on the program: constants, broadcasts, conversions."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from ...ir.sizes import number_attribute


def element(dtype: str) -> ir.Type:
    """Returns the MLIR type of an element type such as "f32" or "index"."""
    return ir.IndexType.get() if dtype == "index" else ir.Type.parse(dtype)


def converted(size: ir.Value, type_: ir.Type) -> ir.Value:
    """Converts an index to another type."""
    if type_ == size.type:
        return size
    if isinstance(type_, ir.IntegerType):
        return arith.index_cast(type_, size)
    return arith.sitofp(type_, arith.index_cast(ir.IntegerType.get_signless(64), size))


def typed(shape: Sequence[int], type_: ir.Type) -> ir.Type:
    """Returns the type of a block, that of its elements for a scalar."""
    return ir.VectorType.get(shape, type_) if shape else type_


def block_shape(v: ir.Value) -> tuple[int, ...]:
    """Returns the shape of a block, () for a scalar."""
    return tuple(ir.VectorType(v.type).shape) if isinstance(v.type, ir.VectorType) else ()


def common_shape(values: Iterable[ir.Value]) -> tuple[int, ...]:
    """Returns the shape that scalars and blocks of one rank are broadcast to, to be joined."""
    return tuple(max(sizes) for sizes in zip(*filter(None, map(block_shape, values)), strict=True))


def broadcast(v: ir.Value, shape: Sequence[int]) -> ir.Value:
    """Broadcasts a scalar or a block to `shape`; one that has it stays as it is."""
    type_ = v.type.element_type if isinstance(v.type, ir.VectorType) else v.type
    return v if block_shape(v) == tuple(shape) else vector.broadcast(ir.VectorType.get(shape, type_), v)


def broadcast_binary(op: Callable[[ir.Value, ir.Value], ir.Value], a: ir.Value, b: ir.Value) -> ir.Value:
    """Applies an op to two blocks of one rank, broadcast to one shape."""
    shape = common_shape((a, b))
    return op(broadcast(a, shape), broadcast(b, shape))


def filled(shape: Sequence[int], value: Any, type_: ir.Type) -> ir.Value:
    """Returns a constant block with `value` in all lanes; a scalar where it has no shape."""
    number = number_attribute(value, type_)
    whole = typed(shape, type_)
    return arith.constant(whole, ir.DenseElementsAttr.get_splat(whole, number) if shape else number)
