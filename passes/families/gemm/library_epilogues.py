"""cuBLASLt epilogues: moves ReLU or tanh GELU from the group that reads a product into the library's call."""

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith

from ...ir.generics import empty, generic, with_body
from ...ir.locations import fused
from ...ir.views import RESHAPES
from ...space.contraction import Unfit
from ..surroundings import CHOICE, Problem
from .products import Product

CUBLASLT = "cublaslt"
_CALLEE = "aten._addmm_activation.default"
_GELU = "gelu_tanh"  # the pattern's name (simplify/patterns/gelu.py): the library has GELU by tanh, but not by erf


@dataclass(frozen=True)
class _Activation:
    """A linalg.generic whose only operand is the product. gelu: whether it is tanh GELU; else it is ReLU."""

    op: ir.Operation
    gelu: bool


def has_activation(bundle: Problem) -> bool:
    """Whether a bundle's product has a bias, and all that reads it is an activation, in its group, that cuBLASLt can fuse."""
    return _activation(bundle) is not None


def take_activation(bundle: Problem) -> None:
    """Moves the activation into the call; the group keeps the rest, if any. Raises Unfit, and changes nothing, if there is none."""
    found = _activation(bundle)
    if found is None:
        raise Unfit("no ReLU or GELU by tanh follows a product with a bias, and reads it alone")
    (call,), group = bundle.ops, bundle.group
    assert group is not None
    kept = {name: call.attributes[name] for name in call.attributes if name != CHOICE}
    with fused([call.location, found.op.location]), ir.InsertionPoint(call):
        own = {"callee": ir.StringAttr.get(_CALLEE), "kwargs": ir.DictAttr.get({"use_gelu": ir.BoolAttr.get(found.gelu)})}
        types = [v.type for v in call.results]
        new = ir.Operation.create("graph.extern", results=types, operands=list(call.operands), attributes=kept | own)
        call.results[0].replace_all_uses_with(new.results[0])
        call.erase()
        _drop(found.op)
        _drop_group(group)


def _activation(bundle: Problem) -> _Activation | None:
    product = Product.read(bundle.ops[0])
    if len(bundle.ops) != 1 or bundle.group is None or product is None or product.added is None or product.scales:
        return None
    added, result = ir.RankedTensorType(product.added.type), bundle.ops[0].results[0]
    if (
        product.result.rank != 2
        or added.rank != 1
        or added.shape[0] != product.result.shape[1]
        or (product.alpha, product.beta) != (1, 1)
    ):
        return None
    block = bundle.group.regions[0].blocks[0]
    value: ir.Value = next(a for a, v in zip(block.arguments, bundle.group.operands, strict=True) if v == result)
    while (op := _only_user(value)) is not None and op.name in RESHAPES:
        value = op.results[0]
    if op is None or not _is_pointwise(op):
        return None
    gelu = "graph.pattern" in op.attributes and ir.StringAttr(op.attributes["graph.pattern"]).value == _GELU
    return _Activation(op, gelu) if gelu or _is_relu(op) else None


def _only_user(value: ir.Value) -> ir.Operation | None:
    uses = list(value.uses)
    return uses[0].owner.operation if len(uses) == 1 else None


def _is_pointwise(op: ir.Operation) -> bool:
    """Whether this is a linalg.generic that maps each element of one tensor to one element."""
    if op.name != "linalg.generic" or len(op.operands) != 2:
        return False
    rank = ir.RankedTensorType(op.results[0].type).rank
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(rank, op.context))
    return all(m == identity for m in op.attributes["indexing_maps"])


def _is_relu(op: ir.Operation) -> bool:
    inner = _on_element(op, "arith.maximumf")
    other = inner.operands[1].owner if inner is not None else None
    if not isinstance(other, ir.Operation | ir.OpView) or other.operation.name != "arith.constant":
        return False
    return ir.FloatAttr(other.operation.attributes["value"]).value == 0


def _on_element(op: ir.Operation, name: str) -> ir.Operation | None:
    """Returns the op that the body yields, if it has this name and its first operand is the element that is read; else None."""
    *_, end = op.regions[0].blocks[0].operations
    inner = end.operation.operands[0].owner
    if not isinstance(inner, ir.Operation | ir.OpView) or inner.operation.name != name:
        return None
    return inner.operation if inner.operation.operands[0] == op.regions[0].blocks[0].arguments[0] else None


def _drop(op: ir.Operation) -> None:
    """Replaces an activation by its operand. Users that only round its result to the operand's type are dropped, too."""
    source, result = op.operands[0], op.results[0]
    if source.type == result.type:
        result.replace_all_uses_with(source)
    for user in [use.owner.operation for use in result.uses]:
        if _is_pointwise(user) and user.results[0].type == source.type and _on_element(user, "arith.truncf") is not None:
            user.results[0].replace_all_uses_with(source)
            user.erase()
    if list(result.uses):
        wide = ir.RankedTensorType(result.type)
        dims = [ir.AffineDimExpr.get(d) for d in range(wide.rank)]
        with ir.InsertionPoint(op):
            made = generic(wide, [source, empty(wide)], [dims, dims], wide.rank, [False] * wide.rank)
            result.replace_all_uses_with(with_body(made, lambda x, _: arith.extf(wide.element_type, x)))
    op.erase()


def _drop_group(group: ir.Operation) -> None:
    """Replaces a group that only holds views of its operands by these views."""
    *inner, end = (o.operation for o in group.regions[0].blocks[0].operations)
    used = [o for o in inner if any(list(v.uses) for v in o.results)]
    if any(o.name not in RESHAPES for o in used):
        return
    values = dict(zip(group.regions[0].blocks[0].arguments, group.operands, strict=True))
    with ir.InsertionPoint(group):
        for o in used:
            copy = o.clone()
            for i, v in enumerate(o.operands):
                copy.operands[i] = values[v]
            values.update(zip(o.results, copy.results, strict=True))
    for old, v in zip(group.results, end.operands, strict=True):
        old.replace_all_uses_with(values[v])
    group.erase()
