"""Expands ops that move elements, or make tensors of sizes, where a size is symbolic: torch-mlir would compute with sizes.

Each function takes the call's arguments (tensors as values, sizes as ints or Sizes) and the type of its result, and returns the
result, built at the current insertion point. The arguments are those of the overload in ATen.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith, linalg, tensor

from lamina.core.sizes import Size, SizeLike, maximum, typical

from ..ir.generics import elementwise, fill, padded, spread
from ..ir.reading import CHECKED, shape_of
from ..ir.reshapes import reshaped, sliced
from ..ir.sizes import size_value, sizes_of, tensor_type

_OPEN = 2**63 - 1
"""The end of a slice that goes on to the last element."""


def view(type_: ir.RankedTensorType, x: ir.Value, *_: Any) -> ir.Value:
    """Expands view and _unsafe_view. Where the sizes do not show that both shapes hold as many elements, as torch has made sure of,
    the result is made of the first elements of a row: of all of them."""
    shape = sizes_of(type_)
    out = reshaped(x, shape)
    if out is not None:
        return out
    row = reshaped(x, [math.prod(shape_of(x))])
    found = reshaped(sliced(row, [0], [math.prod(shape)], [1]), shape)
    assert found is not None
    return found


def expand(type_: ir.RankedTensorType, x: ir.Value, *_: Any, **__: Any) -> ir.Value:
    """Expands a broadcast: a generic that reads dimensions of size 1 again. Without such a dimension it is its operand."""
    return x if shape_of(x) == sizes_of(type_) else spread(x, type_)


def slice_(
    type_: ir.RankedTensorType, x: ir.Value, dim: int = 0, start: SizeLike | None = None, end: Any = None, step: int = 1
) -> ir.Value:
    """Expands a slice along one dimension; its length is the result's."""
    source, shape = shape_of(x), sizes_of(type_)
    starts: list[SizeLike] = [0] * len(source)
    steps = [1] * len(source)
    begin = start or 0
    if typical(begin) < 0:  # there may be fewer elements than it counts from the end
        is_rest = step == 1 and end in (None, _OPEN)
        begin = source[dim] - shape[dim] if is_rest else maximum(0, begin + source[dim])
    starts[dim], steps[dim % len(source)] = begin, step
    return sliced(x, starts, shape, steps)


def select(type_: ir.RankedTensorType, x: ir.Value, dim: int, index: SizeLike) -> ir.Value:
    """Expands the selection of one index of a dimension."""
    source = shape_of(x)
    starts: list[SizeLike] = [0] * len(source)
    sizes = list(source)
    # The sign of an index, or of a slice's start, is that of its hint: torch has asked for it, so a guard stands.
    starts[dim], sizes[dim] = index + source[dim] if typical(index) < 0 else index, 1
    return sliced(x, starts, sizes, [1] * len(source), sizes_of(type_))


def cat(type_: ir.RankedTensorType, parts: Sequence[ir.Value], dim: int = 0) -> ir.Value:
    """Expands a concatenation; ATen ignores parts without dimensions to concatenate along."""
    parts = [v for v in parts if shape_of(v) != (0,) or type_.rank == 1]
    return tensor.ConcatOp(type_, dim % type_.rank, parts).result


def full(type_: ir.RankedTensorType, _: Any, value: Any = 0, **__: Any) -> ir.Value:
    """Expands full and full_like."""
    return fill(type_, _scalar(value, type_.element_type))


def scalar_tensor(type_: ir.RankedTensorType, value: Any, **_: Any) -> ir.Value:
    """Expands a tensor of one number."""
    return fill(type_, _scalar(value, type_.element_type))


def constant_of(value: int) -> Callable[..., ir.Value]:
    """Returns the expansion of zeros, ones and the like."""
    return lambda type_, *_, **__: fill(type_, _scalar(value, type_.element_type))


def iota(type_: ir.RankedTensorType, _: SizeLike, start: SizeLike = 0, step: SizeLike = 1, **__: Any) -> ir.Value:
    """Expands prims.iota: start + i * step."""
    return _ramp(type_, start, step)


def arange(type_: ir.RankedTensorType, *ends: Any, **_: Any) -> ir.Value:
    """Expands arange of an end, a start and an end, or a start, an end and a step."""
    return _ramp(type_, ends[0] if len(ends) > 1 else 0, ends[2] if len(ends) > 2 else 1)


def _ramp(type_: ir.RankedTensorType, start: Any, step: Any) -> ir.Value:
    """Emits start + step * position for each element of a vector, as arange does."""
    element, i64 = type_.element_type, ir.IntegerType.get_signless(64)
    whole = not any(isinstance(x, float) for x in (start, step))
    wide = i64 if whole else ir.F64Type.get()

    def element_at() -> ir.Value:
        """Computes start + step * position."""
        here = arith.index_cast(i64, linalg.IndexOp(0).result)
        if not whole:
            here = arith.sitofp(wide, here)
        times, plus = (arith.muli, arith.addi) if whole else (arith.mulf, arith.addf)
        return _converted(plus(times(here, _scalar(step, wide)), _scalar(start, wide)), element)

    return elementwise(type_, [], [], element_at)


def _scalar(value: Any, type_: ir.Type) -> ir.Value:
    """Creates a number, or a size, as a scalar of a type."""
    if isinstance(value, Size):
        return _converted(arith.index_cast(ir.IntegerType.get_signless(64), size_value(value)), type_)
    if isinstance(type_, ir.IntegerType):
        return arith.constant(type_, int(value))
    return arith.constant(type_, float(value))


def _converted(v: ir.Value, type_: ir.Type) -> ir.Value:
    """Converts a number of i64 or f64 to another type."""
    if v.type == type_:
        return v
    if isinstance(v.type, ir.IntegerType):
        return arith.trunci(type_, v) if isinstance(type_, ir.IntegerType) else arith.sitofp(type_, v)
    return arith.fptosi(type_, v) if isinstance(type_, ir.IntegerType) else arith.truncf(type_, v)


def pad(type_: ir.RankedTensorType, x: ir.Value, pads: Sequence[SizeLike], value: Any = 0) -> ir.Value:
    """Expands constant_pad_nd: pairs of sizes before and after, from the last dimension on. Negative ones cut."""
    source = shape_of(x)
    low: list[SizeLike] = [0] * len(source)
    high: list[SizeLike] = [0] * len(source)
    for d in range(len(pads) // 2):
        low[-1 - d], high[-1 - d] = pads[2 * d], pads[2 * d + 1]
    cut_low, cut_high = ([-n if isinstance(n, int) and n < 0 else 0 for n in side] for side in (low, high))
    if any(cut_low) or any(cut_high):
        sizes = [n - a - b for n, a, b in zip(source, cut_low, cut_high, strict=True)]
        x = sliced(x, cut_low, sizes, [1] * len(source))
        low, high = ([n if not isinstance(n, int) or n > 0 else 0 for n in side] for side in (low, high))
    return padded(x, low, high, _scalar(value, type_.element_type))


def flip(type_: ir.RankedTensorType, x: ir.Value, dims: Sequence[int]) -> ir.Value:
    """Expands a reversal of dimensions: a generic that extracts from the other end."""
    shape = sizes_of(type_)
    turned = {d % type_.rank for d in dims}
    ends = {d: size_value(shape[d] - 1) for d in turned}
    return _extracted(type_, x, lambda index: [arith.subi(ends[d], v) if d in turned else v for d, v in enumerate(index)])


def repeat(type_: ir.RankedTensorType, x: ir.Value, counts: Sequence[SizeLike]) -> ir.Value:
    """Expands a repetition of the whole along each dimension: a broadcast along new dimensions, which are then merged."""
    source = (1,) * (len(counts) - len(shape_of(x))) + shape_of(x)
    apart = [n for pair in zip([1] * len(counts), source, strict=True) for n in pair]
    whole = [n for pair in zip(counts, source, strict=True) for n in pair]
    wide = expand(tensor_type(whole, type_.element_type), view(tensor_type(apart, type_.element_type), x))
    return view(type_, wide)


def diagonal(type_: ir.RankedTensorType, x: ir.Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> ir.Value:
    """Expands a diagonal, which is the last dimension of the result."""
    rank = type_.rank + 1
    starts = {dim1 % rank: max(-offset, 0), dim2 % rank: max(offset, 0)}
    rest = iter(range(rank - 2))
    whence = [(rank - 2, starts[d]) if d in starts else (next(rest), 0) for d in range(rank)]
    return _extracted(type_, x, lambda index: [_shifted(index[d], start) for d, start in whence])


def _shifted(index: ir.Value, by: int) -> ir.Value:
    return arith.addi(index, size_value(by)) if by else index


def _extracted(type_: ir.RankedTensorType, x: ir.Value, whence: Callable[[Sequence[ir.Value]], Sequence[ir.Value]]) -> ir.Value:
    """Emits a tensor of the elements of another one at computed indices, which are within it."""

    def element() -> ir.Value:
        """Reads the source at the element's place."""
        at = whence([linalg.IndexOp(d).result for d in range(type_.rank)])
        marks = {CHECKED: ir.UnitAttr.get()}
        return ir.Operation.create("tensor.extract", results=[type_.element_type], operands=[x, *at], attributes=marks).result

    return elementwise(type_, [], [], element)


def bitcast(type_: ir.RankedTensorType, x: ir.Value, *_: Any) -> ir.Value:
    """Expands a view in another dtype of the same width."""
    return spread(x, type_, make=lambda v: v if v.type == type_.element_type else arith.bitcast(type_.element_type, v))


MOVES: dict[str, Callable[..., ir.Value]] = {
    "aten.view.default": view,
    "aten._unsafe_view.default": view,
    "aten.expand.default": expand,
    "aten.slice.Tensor": slice_,
    "aten.select.int": select,
    "aten.cat.default": cat,
    "aten.full.default": full,
    "aten.full_like.default": full,
    "aten.zeros.default": constant_of(0),
    "aten.zeros_like.default": constant_of(0),
    "aten.ones.default": constant_of(1),
    "aten.ones_like.default": constant_of(1),
    "aten.scalar_tensor.default": scalar_tensor,
    "aten.arange.default": arange,
    "aten.arange.start": arange,
    "aten.arange.start_step": arange,
    "prims.iota.default": iota,
    "aten.constant_pad_nd.default": pad,
    "aten.flip.default": flip,
    "aten.repeat.default": repeat,
    "aten.diagonal.default": diagonal,
    "aten.view.dtype": bitcast,
}
"""The expansion of each overload."""
