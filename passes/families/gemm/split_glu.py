"""Splits the product of a GLU whose column halves are gate and up into two products that share their left operand."""

from collections.abc import Sequence
from dataclasses import replace

from torch_mlir import ir
from torch_mlir.dialects import tensor

from ...ir.reading import shape_of
from ...ir.reshapes import sliced
from ...ir.sizes import sizes_of, tensor_type
from .products import Product


def may_meet(product: Product, group: ir.Operation) -> bool:
    """Returns whether the group may read the product only as column halves: it has slices, and the number of columns is even."""
    body = group.regions[0].blocks[0].operations
    return product.result.shape[-1] % 2 == 0 and any(o.operation.name == "tensor.extract_slice" for o in body)


def in_halves(product: Product, operands: Sequence[ir.Value]) -> ir.Value:
    """Emits the product as the concatenation of its column halves. operands: the values to use for the product's operands."""
    *outer, n = sizes_of(product.result)
    half = replace(product, result=tensor_type([*outer, n // 2], product.result.element_type))
    factor = product.operands.index(product.a)
    halves = []
    for first in (0, n // 2):
        parts = [v if i == factor or shape_of(v)[-1:] != (n,) else _columns(v, first, n // 2) for i, v in enumerate(operands)]
        halves.append(half.emit(parts))
    return tensor.ConcatOp(product.result, len(outer), halves).result


def _columns(v: ir.Value, first: int, count: int) -> ir.Value:
    """Slices `count` columns of a tensor, starting at column `first`."""
    *outer, _ = shape_of(v)
    return sliced(v, [*[0] * len(outer), first], [*outer, count], [1] * (len(outer) + 1))
