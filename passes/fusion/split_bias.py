"""Moves the bias of a product from the library's call into the kernel that reads the product."""

from torch_mlir import ir
from torch_mlir.dialects import arith

from lamina.dialects.graph import TF32

from ..ir.extern_calls import call_like
from ..ir.generics import empty, generic, with_body
from ..ir.reading import element_type, ops_in
from ..ir.rewriting import replace_op
from ..ir.views import VIEWS, is_view

_WITH_BIAS, _WITHOUT = "aten.addmm.default", "aten.mm.default"
_TILE, _MULTIPROCESSORS = 64, 128  # assumed side of a library's output tile, and multiprocessors of the GPU
_LONG = 256  # split-K pays from this inner dimension on


def split_bias(block: ir.Block) -> None:
    """Splits products of f32 with a bias, which take cuBLASLt twice as long with few rows as cuBLAS without one, into a product and
    an addition, in either of two cases. Only ops that become Lamina's kernels read the product: there the addition is free. Or the
    result has so few tiles that the library would use split-K, which it does only without a bias."""
    for op in ops_in(block):
        if op.name == "graph.extern" and _has_bias(op) and (_feeds_kernels(op.results[0]) or _has_few_tiles(op)):
            _split(op)


def _has_few_tiles(op: ir.Operation) -> bool:
    """Returns whether a product has fewer tiles than a GPU has multiprocessors, and its sums are long."""
    (m, k), n = (list(ir.RankedTensorType(op.operands[1].type).shape), ir.RankedTensorType(op.results[0].type).shape[1])
    return k >= _LONG and -(-m // _TILE) * -(-n // _TILE) < _MULTIPROCESSORS


def _has_bias(op: ir.Operation) -> bool:
    """Returns whether a call is an addmm of f32, not rounded to tf32, with one bias per column, where neither bias nor product is
    scaled."""
    if ir.StringAttr(op.attributes["callee"]).value != _WITH_BIAS or len(op.operands) != 3 or len(op.attributes["kwargs"]):
        return False
    if TF32 in op.attributes or element_type(op.results[0]) != "f32":
        return False
    bias, result = (ir.RankedTensorType(v.type) for v in (op.operands[0], op.results[0]))
    return bias.rank == 1 and bias.shape[0] == result.shape[1] and bias.element_type == result.element_type


def _feeds_kernels(value: ir.Value) -> bool:
    """Returns whether all that reads a value, or views of it, becomes kernels: no call reads it, and it is not returned."""
    users = [use.owner.operation for use in value.uses]
    return bool(users) and all(_is_computed(user, value) for user in users)


def _is_computed(user: ir.Operation, value: ir.Value) -> bool:
    if user.name in VIEWS and is_view(user):
        return _feeds_kernels(user.results[0])
    return user.name == "linalg.generic" and value not in list(user.operands)[-len(user.results) :]


def _split(op: ir.Operation) -> None:
    bias, a, b = op.operands
    result = ir.RankedTensorType(op.results[0].type)
    with op.location, ir.InsertionPoint(op):
        strides = ir.ArrayAttr(op.attributes["strides"])[0]
        product = call_like(op, [a, b], [ir.UnitAttr.get()] * 2, [(result, strides)], _WITHOUT).results[0]
        row, column = (ir.AffineDimExpr.get(d) for d in range(2))
        maps = [[row, column], [column], [row, column]]
        added = generic(result, [product, bias, empty(result)], maps, 2, [False, False])
        replace_op(op, with_body(added, lambda x, y, _: arith.addf(x, y)))
