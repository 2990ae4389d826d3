"""Chooses the width of indices: 32 bits where buffers and numbers are small enough, as a GPU's integer units are 32 bits wide."""

from math import inf, prod

from torch_mlir import ir

from lamina.core.binding.bind import MOST_IN_32_BITS

from ...ir.emit import Emit, replace
from ...ir.index_ranges import GROWS, Ranges
from ...ir.reading import element_of, integer, nested, ops_in
from ...ir.sizes import KERNEL_SIZES

WIDE, NARROW = 64, 32


def index_width(device: ir.Operation) -> int:
    """Returns the bits of an index, 32 or 64, that are enough for every kernel of a gpu.module."""
    ranges = Ranges()
    functions = ops_in(device.regions[0].blocks[0])
    return NARROW if all(_is_small(op, ranges, _bounds_sizes(f)) for f in functions for op in nested(f)) else WIDE


def _bounds_sizes(function: ir.Operation) -> bool:
    """Returns whether a function's symbolic sizes, among them the elements of its buffers, are known to fit in 32 bits."""
    if KERNEL_SIZES not in function.attributes:
        return False
    *_, sizes = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).inputs
    return element_of(sizes) == ir.IntegerType.get_signless(NARROW)


def _is_small(op: ir.Operation, ranges: Ranges, bounded: bool) -> bool:
    """Returns whether the numbers and buffers of one op allow for indices of 32 bits. bounded: so do symbolic sizes."""
    if op.name == "arith.constant" and isinstance(op.results[0].type, ir.IndexType):
        return abs(integer(op, "value")) <= MOST_IN_32_BITS
    if op.name == "gpu.func":
        return all(_is_near(a.type, bounded) for a in op.regions[0].blocks[0].arguments)
    if op.name in GROWS:
        return _fits(ranges, op.results[0])
    return not op.name.startswith("memref.") or all(_is_near(r.type, bounded) for r in op.results)


def _fits(ranges: Ranges, value: ir.Value) -> bool:
    """Returns whether an index fits in 32 bits. Those of elements of tensors that no buffer holds may not. Infinite ranges count as
    fitting: an index read from memory is checked against the bounds of a buffer."""
    low, high = ranges.of(value)
    return (low == -inf or low >= -(1 << 31)) and (high == inf or high < 1 << 31)


def _is_near(type_: ir.Type, bounded: bool) -> bool:
    """Returns whether a buffer has at most MOST_IN_32_BITS elements from its first to its last; `bounded` where its sizes are
    symbolic."""
    if not isinstance(type_, ir.MemRefType):
        return True
    strides, offset = type_.get_strides_and_offset()
    if not type_.has_static_shape or ir.ShapedType.get_dynamic_stride_or_offset() in (*strides, offset):
        return bounded
    reach = offset + 1 + sum((size - 1) * abs(stride) for size, stride in zip(type_.shape, strides, strict=True))
    return prod(type_.shape) == 0 or reach <= MOST_IN_32_BITS


def saturate(op: ir.Operation) -> None:
    """Saturates the i64 operand of an arith.index_cast to 32 bits: what was out of every bound stays so."""
    e = Emit.before(op, op.operands[0])
    x = e.wrap(op.operands[0])
    low, high = x.like(-(1 << 31)), x.like((1 << 31) - 1)
    fits = e.make("arith.minsi", x.value.type, e.make("arith.maxsi", x.value.type, x, low), high)
    replace(op, fits.cast("arith.index_cast", ir.IndexType.get()))


def from_long(op: ir.Operation) -> bool:
    """Returns whether a cast makes an index of an i64."""
    return element_of(op.operands[0].type) == ir.IntegerType.get_signless(WIDE)
