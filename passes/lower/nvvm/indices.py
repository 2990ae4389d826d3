"""Chooses the width of indices: 32 bits where buffers and numbers are small enough, as a GPU's integer units are 32 bits wide."""

from math import inf, prod

from torch_mlir import ir

from ...ir.emit import Emit, replace
from ...ir.index_ranges import GROWS, Ranges
from ...ir.reading import element_of, nested

LARGEST = 1 << 30  # elements or numbers; programs past the end exceed it a little
WIDE, NARROW = 64, 32


def width(device: ir.Operation) -> int:
    """Returns the bits of an index, 32 or 64, that are enough for every kernel of a gpu.module."""
    ranges = Ranges()
    return NARROW if all(_is_small(op, ranges) for op in nested(device)) else WIDE


def _is_small(op: ir.Operation, ranges: Ranges) -> bool:
    """Returns whether the numbers and buffers of one op allow for indices of 32 bits."""
    if op.name == "arith.constant" and isinstance(op.results[0].type, ir.IndexType):
        return abs(ir.IntegerAttr(op.attributes["value"]).value) <= LARGEST
    if op.name == "gpu.func":
        return all(_reach(a.type) <= LARGEST for a in op.regions[0].blocks[0].arguments)
    if op.name in GROWS:
        return _fits(ranges, op.results[0])
    return not op.name.startswith("memref.") or all(_reach(r.type) <= LARGEST for r in op.results)


def _fits(ranges: Ranges, value: ir.Value) -> bool:
    """Returns whether an index fits in 32 bits. Those of elements of tensors that no buffer holds may not. Infinite ranges count as
    fitting: an index read from memory is checked against the bounds of a buffer."""
    low, high = ranges.of(value)
    return (low == -inf or low >= -(1 << 31)) and (high == inf or high < 1 << 31)


def _reach(of: ir.Type) -> int:
    """Returns the elements from a buffer's first to its last; more than LARGEST where that is not known."""
    if not isinstance(of, ir.MemRefType):
        return 0
    if not of.has_static_shape:
        return LARGEST + 1
    strides, offset = of.get_strides_and_offset()
    if any(s == ir.ShapedType.get_dynamic_stride_or_offset() for s in (*strides, offset)):
        return LARGEST + 1
    return (
        offset + 1 + sum((size - 1) * abs(stride) for size, stride in zip(of.shape, strides, strict=True)) if prod(of.shape) else 0
    )


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
