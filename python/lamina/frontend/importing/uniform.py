"""Folds comparisons and arithmetic of uniform tensors: torch-mlir's folder gets them wrong (0.75 > 1 is true, 3.0 + -3 is 2**64, as
integers below 0 lose their sign) or ends the process.

A tensor is uniform if one number fills it: the results of full, ones_like and the like, and pointwise ops and views of such
tensors.
"""

import math
from typing import Any

import torch
from torch import Tensor, fx

from ..fx.rewriter import insert, replace

aten = torch.ops.aten

_FOLDED = {
    getattr(getattr(aten, op), kind)
    for op in ("eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "rsub", "mul", "div", "remainder", "fmod")
    for kind in ("Scalar", "Tensor", "Scalar_mode", "Tensor_mode")
    if kind in getattr(aten, op).overloads()
}
_MADE = {aten.full.default, aten.zeros.default, aten.ones.default}
_LIKE = {aten.full_like.default, aten.zeros_like.default, aten.ones_like.default}
_SCALAR = {aten.scalar_tensor.default}
_VIEWS = {
    aten.view.default, aten._unsafe_view.default, aten.expand.default, aten.permute.default, aten.transpose.int, aten.t.default,
    aten.slice.Tensor, aten.select.int, aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default,
    aten.flip.default, aten.repeat.default, aten.alias.default, aten.detach.default, aten.lift_fresh_copy.default,
}  # fmt: skip


def fold_uniform(graph: fx.Graph) -> None:
    """Replaces comparisons and arithmetic of uniform tensors by `full`, where the result is finite."""
    known: dict[fx.Node, Tensor] = {}
    for node in list(graph.nodes):
        value = _value(node, known)
        if value is None:
            continue
        known[node] = value
        if node.target in _FOLDED and math.isfinite(value.item()):
            made, told = node.meta["val"], value.item()
            whole = insert(node, made, aten.full.default, list(made.shape), told, dtype=made.dtype, device=made.device)
            known[whole] = value
            replace(node, whole)


def _value(node: fx.Node, known: dict[fx.Node, Tensor]) -> Tensor | None:
    """Returns the number that fills a node's result, as one element of the result's rank; None if it is not uniform or not
    known."""
    meta = node.meta.get("val")
    if not isinstance(meta, Tensor) or meta.dtype.is_complex:
        return None
    shape = [1] * meta.dim()
    if node.op == "get_attr":
        return _constant(node, shape)
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return None
    if node.target in _MADE | _LIKE | _SCALAR:
        number = _number(node)
        return torch.full(shape, number, dtype=meta.dtype) if isinstance(number, int | float) else None
    operands = node.all_input_nodes
    if not operands or any(n not in known for n in operands):
        return None
    if node.target in _VIEWS:
        return known[operands[0]].reshape(shape)
    if torch.Tag.pointwise not in node.target.tags or torch.Tag.nondeterministic_seeded in node.target.tags:
        return None
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: known[n])
    result = node.target(*args, **{k: v for k, v in kwargs.items() if k not in ("device", "layout", "pin_memory")})
    return result if isinstance(result, Tensor) and result.dtype == meta.dtype else None


def _constant(node: fx.Node, shape: list[int]) -> Tensor | None:
    value: Any = node.graph.owning_module
    for part in str(node.target).split("."):
        value = getattr(value, part)
    if not isinstance(value, Tensor) or not value.numel() or value.device.type != "cpu":
        return None
    first = value.detach().reshape(-1)[:1]
    return first.reshape(shape) if bool((value == first).all()) else None


def _number(node: fx.Node) -> Any:
    name = node.target._opname if isinstance(node.target, torch._ops.OpOverload) else ""
    if name.startswith(("zeros", "ones")):
        return 1 if name.startswith("ones") else 0
    return node.args[0] if node.target in _SCALAR else node.args[1]
