"""Moves the bias of a product from the library's call into the kernel that reads the product."""

from torch_mlir import ir
from torch_mlir.dialects import arith

from ..ir.generics import empty, generic, with_body
from ..ir.views import VIEWS, is_view

APART = "apart"  # the attribute of calls that take longer with a bias than without
_WITH_BIAS, _WITHOUT = "aten.addmm.default", "aten.mm.default"
_TILE, _MULTIPROCESSORS = 64, 128  # the side of a library's output tile, and the multiprocessors that tiles have to fill
_LONG = 256  # length of k from which on splitting it pays


def add_apart(block: ir.Block) -> None:
    """Splits products with a bias that are marked `apart` into a product and an addition. This is done where only ops that
    become Lamina's kernels read them, as the addition is free there, and where the result has so few tiles that a library would
    split k (the sums), which it does only without a bias."""
    for op in [o.operation for o in block.operations]:
        apart = op.name == "graph.extern" and APART in op.attributes and _has_bias(op)
        if apart and (_feeds_kernels(op.results[0]) or _has_few_tiles(op)):
            _split(op)


def _has_few_tiles(op: ir.Operation) -> bool:
    """Returns whether a product has fewer tiles than a GPU has multiprocessors, each with a long sum."""
    (m, k), n = (list(ir.RankedTensorType(op.operands[1].type).shape), ir.RankedTensorType(op.results[0].type).shape[1])
    return k >= _LONG and -(-m // _TILE) * -(-n // _TILE) < _MULTIPROCESSORS


def _has_bias(op: ir.Operation) -> bool:
    """Returns whether a call adds one number to each column of a product, and neither is scaled."""
    if ir.StringAttr(op.attributes["callee"]).value != _WITH_BIAS or len(op.operands) != 3 or len(op.attributes["kwargs"]):
        return False
    bias, result = (ir.RankedTensorType(v.type) for v in (op.operands[0], op.results[0]))
    return bias.rank == 1 and bias.shape[0] == result.shape[1] and bias.element_type == result.element_type


def _feeds_kernels(value: ir.Value) -> bool:
    """Returns whether only ops that become kernels read a value, or views of it: no call, nor the caller."""
    users = [use.owner.operation for use in value.uses]
    return bool(users) and all(_is_computed(user, value) for user in users)


def _is_computed(user: ir.Operation, value: ir.Value) -> bool:
    if user.name in VIEWS and is_view(user):
        return _feeds_kernels(user.results[0])
    return user.name == "linalg.generic" and value not in list(user.operands)[-len(user.results) :]


def _split(op: ir.Operation) -> None:
    bias, a, b = op.operands
    result = ir.RankedTensorType(op.results[0].type)
    kept = {name: op.attributes[name] for name in op.attributes if name != APART}
    own = {"callee": ir.StringAttr.get(_WITHOUT), "args": ir.ArrayAttr.get([ir.UnitAttr.get()] * 2)}
    with op.location, ir.InsertionPoint(op):
        product = ir.Operation.create("graph.extern", results=[result], operands=[a, b], attributes=kept | own).results[0]
        row, column = (ir.AffineDimExpr.get(d) for d in range(2))
        maps = [[row, column], [column], [row, column]]
        added = generic(result, [product, bias, empty(result)], maps, 2, [False, False])
        op.results[0].replace_all_uses_with(with_body(added, lambda x, y, _: arith.addf(x, y)))
    op.erase()
