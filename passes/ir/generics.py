"""Builders for linalg ops, pads and splits of tensors at the current insertion point."""

from collections.abc import Callable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from lamina.core.sizes import SizeLike

from .reading import number_of, shape_of
from .reshapes import expand
from .sizes import size_operands, sizes_of, static_sizes, tensor_type


def generic(
    type_: ir.Type, operands: Sequence[ir.Value], maps: Sequence[Sequence[ir.AffineExpr]], dims: int, reduced: Sequence[bool]
) -> ir.Operation:
    """Creates a linalg.generic over `dims` loops without a body; the last of `operands` is its init. maps: one per operand."""
    kinds = [ir.Attribute.parse(f"#linalg.iterator_type<{'reduction' if r else 'parallel'}>") for r in reduced]
    return ir.Operation.create(
        "linalg.generic",
        results=[type_],
        operands=list(operands),
        attributes={
            "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(ir.AffineMap.get(dims, 0, list(m))) for m in maps]),
            "iterator_types": ir.ArrayAttr.get(kinds),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands) - 1, 1]),
        },
        regions=1,
    )


def with_body(op: ir.Operation, make: Callable[..., ir.Value]) -> ir.Value:
    """Adds a body that yields `make(element of each operand)` and returns the generic's result."""
    elements = [
        ir.RankedTensorType(v.type).element_type if isinstance(v.type, ir.RankedTensorType) else v.type for v in op.operands
    ]
    block = op.regions[0].blocks.append(*elements)
    with ir.InsertionPoint(block):
        ir.Operation.create("linalg.yield", operands=[make(*block.arguments)])
    return op.results[0]


def elementwise(
    type_: ir.RankedTensorType, operands: Sequence[ir.Value], maps: Sequence[Sequence[ir.AffineExpr]], make: Callable[..., ir.Value]
) -> ir.Value:
    """Emits a tensor whose elements `make` computes from one of each operand. maps: what is read of these, by the result's
    dimensions."""
    here = ir.AffineMap.get_identity(type_.rank).results
    op = generic(type_, [*operands, empty(type_)], [*maps, here], type_.rank, [False] * type_.rank)
    return with_body(op, lambda *elements: make(*elements[:-1]))


def empty(type_: ir.RankedTensorType) -> ir.Value:
    """Creates a tensor.empty."""
    return ir.Operation.create("tensor.empty", results=[type_], operands=size_operands(sizes_of(type_))).results[0]


def filled(type_: ir.RankedTensorType, number: float) -> ir.Value:
    """Creates a float tensor filled with one value."""
    return fill(type_, arith.constant(type_.element_type, number))


def fill(type_: ir.RankedTensorType, scalar: ir.Value) -> ir.Value:
    """Creates a tensor filled with a scalar (linalg.fill)."""
    segments = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1])}
    op = ir.Operation.create("linalg.fill", results=[type_], operands=[scalar, empty(type_)], attributes=segments, regions=1)
    return with_body(op, lambda x, _: x)


def to_f32(x: ir.Value) -> ir.Value:
    """Extends a float to f32."""
    f32 = ir.F32Type.get()
    return x if x.type == f32 else arith.extf(f32, x)


def sums_of_products(
    type_: ir.RankedTensorType,
    a: ir.Value,
    b: ir.Value,
    maps: Sequence[Sequence[ir.AffineExpr]],
    over: int,
    factor: Callable[[ir.Value], ir.Value] = to_f32,
) -> ir.Value:
    """Contracts two tensors over the last `over` loops with f32 accumulation; `type_` has f32 elements.

    maps    indexing maps of both tensors and of the result
    factor  converts an element of either tensor to f32
    """
    loops = type_.rank + over
    reduced = [d >= type_.rank for d in range(loops)]
    total = generic(type_, [a, b, filled(type_, 0.0)], maps, loops, reduced)
    return with_body(total, lambda x, y, s: arith.addf(s, arith.mulf(factor(x), factor(y))))


def in_parts(value: ir.Value, dim: int, parts: int) -> ir.Value:
    """Splits a dimension of a tensor in two: [..., parts, size / parts, ...]."""
    sizes = shape_of(value)
    shape = [*sizes[:dim], parts, sizes[dim] // parts, *sizes[dim + 1 :]]
    return expand(value, shape, [[d + (d > dim)] if d != dim else [d, d + 1] for d in range(len(sizes))])


def tf32_or_half(x: ir.Value) -> ir.Value:
    """Returns an element as tensor cores read it, in f32: f32 is rounded to tf32, shorter types are extended."""
    f32 = ir.F32Type.get()
    return arith.extf(f32, arith.truncf(ir.FloatTF32Type.get(), x) if x.type == f32 else x)


def copied(value: ir.Value) -> ir.Value:
    """Emits a copy of a tensor."""
    return spread(value, ir.RankedTensorType(value.type))


def spread(
    value: ir.Value,
    type_: ir.RankedTensorType,
    dims: Sequence[int | None] | None = None,
    make: Callable[[ir.Value], ir.Value] = lambda x: x,
) -> ir.Value:
    """Emits a tensor of this type that repeats another one.

    dims  the result's dimension that each dimension of the tensor is; None: its first element is read. By default the last ones,
          where the sizes agree
    make  computes an element of the result from the one read
    """
    shape, wanted = shape_of(value), sizes_of(type_)
    if dims is None:
        new = len(wanted) - len(shape)
        dims = [None if n == 1 != wanted[new + d] else new + d for d, n in enumerate(shape)]
    read = [ir.AffineConstantExpr.get(0) if d is None else ir.AffineDimExpr.get(d) for d in dims]
    return elementwise(type_, [value], [read], make)


def transposed(value: ir.Value, order: Sequence[int]) -> ir.Value:
    """Emits the transpose whose dimension d is dimension order[d] of a tensor."""
    type_ = ir.RankedTensorType(value.type)
    result = tensor_type([shape_of(value)[d] for d in order], type_.element_type)
    permutation = {"permutation": ir.DenseI64ArrayAttr.get(list(order))}
    operands = [value, empty(result)]
    op = ir.Operation.create("linalg.transpose", results=[result], operands=operands, attributes=permutation, regions=1)
    return with_body(op, lambda x, _: x)


def padded(value: ir.Value, low: Sequence[SizeLike], high: Sequence[SizeLike], filler: float | ir.Value = 0.0) -> ir.Value:
    """Pads each dimension of a tensor with `low` elements before and `high` after: a scalar, or a number of a float tensor."""
    type_ = ir.RankedTensorType(value.type)
    result_type = tensor_type([b + n + a for b, n, a in zip(low, shape_of(value), high, strict=True)], type_.element_type)
    scalar = filler if isinstance(filler, ir.Value) else arith.constant(type_.element_type, filler)
    pad = tensor.PadOp(result_type, value, size_operands(low), size_operands(high), static_sizes(low), static_sizes(high))
    with ir.InsertionPoint(pad.regions[0].blocks.append(*[ir.IndexType.get()] * type_.rank)):
        tensor.YieldOp(scalar)
    return pad.result


def is_zero(v: ir.Value) -> bool:
    """Returns whether a value is known to be all zeros: a float constant or a fill."""
    number = number_of(v)
    return isinstance(number, float) and number == 0.0
