"""Folds pointwise ops of uniform tensors: torch-mlir's folder gets them wrong (0.75 > 1 is true, 3.0 + -3 is 2**64, as integers
below 0 lose their sign) or ends the process.

A tensor is uniform if one number fills it: the results of full, ones_like and the like, and pointwise ops, conversions and views of
such tensors.

What is read from one at indices is a constant, too, so that a check of the user's indices would be dropped. Numbers are read in its
place:

    index(full([5], 7.0), i)   ->   where(index(arange(5), i) < 0, 0.0, 7.0)
"""

from typing import Any

import torch
from torch import Tensor, fx

from lamina.core.walks import reachable

from ..fx.rewriter import insert, insert_number, replace
from ..fx.sizes import elements
from ..fx.support import COMPUTED, has_effect

aten = torch.ops.aten

_MADE = {aten.full.default, aten.zeros.default, aten.ones.default}
_LIKE = {aten.full_like.default, aten.zeros_like.default, aten.ones_like.default}
_SCALAR = {aten.scalar_tensor.default}
_CONVERSIONS = {aten._to_copy.default, aten.clone.default, torch.ops.prims.convert_element_type.default}
_VIEWS = {
    aten.view.default, aten._unsafe_view.default, aten.expand.default, aten.permute.default, aten.transpose.int, aten.t.default,
    aten.slice.Tensor, aten.select.int, aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default,
    aten.flip.default, aten.repeat.default, aten.alias.default, aten.detach.default, aten.lift_fresh_copy.default,
}  # fmt: skip
_READS = {aten.index.Tensor, aten.index_select.default, aten.gather.default, aten.embedding.default}
_PLACES = ("device", "layout", "pin_memory", "memory_format", "non_blocking")


def fold_uniform(graph: fx.Graph) -> None:
    """Replaces pointwise ops and conversions of uniform tensors by `full`; has indices into such tensors checked on CPUs."""
    known: dict[fx.Node, Tensor] = {}
    for node in list(graph.nodes):
        if node.target in _READS and node.args[0] in known and node.meta["val"].device.type == "cpu":
            _check_indices(node, known[node.args[0]].item())
            continue
        value = _value(node, known)
        if value is None:
            continue
        known[node] = value
        if _computes(node):
            made = node.meta["val"]
            whole = insert(node, made, aten.full.default, list(made.shape), value.item(), dtype=made.dtype, device=made.device)
            known[whole] = value
            replace(node, whole)


def _check_indices(node: fx.Node, number: float) -> None:
    """Makes a read at indices from a tensor filled with a number one of the positions along an indexed dimension."""
    source, *rest = node.args
    result, shape = node.meta["val"], source.meta["val"].shape  # type: ignore[union-attr]
    depends_on_arguments = any(n.op == "placeholder" for n in reachable(set(node.all_input_nodes) - {source}, _inputs))
    if not depends_on_arguments or elements(source.meta["val"]) == 0 or result.dtype not in COMPUTED:  # type: ignore[union-attr]
        return
    dim = _indexed(node) % len(shape)
    view = [shape[dim] if d == dim else 1 for d in range(len(shape))]
    row = result.new_empty(view[dim], dtype=torch.int64)
    named = {"dtype": torch.int64, "device": result.device}
    positions = insert(node, row, aten.arange.start_step, 0, view[dim], 1, **named)
    positions = insert(node, row.view(view), aten.view.default, positions, view)
    positions = insert(node, row.view(view).expand(shape), aten.expand.default, positions, list(shape))
    chosen = insert(node, torch.empty_like(result, dtype=torch.int64), node.target, positions, *rest, **node.kwargs)
    is_below = insert(node, torch.empty_like(result, dtype=torch.bool), aten.lt.Scalar, chosen, 0)  # for no position
    numbers = [insert_number(node, n, result) for n in (type(number)(not number), number)]
    replace(node, insert(node, result, aten.where.self, is_below, *numbers))


def _inputs(node: fx.Node) -> list[fx.Node]:
    return node.all_input_nodes


def _indexed(node: fx.Node) -> int:
    """Returns the first dimension that indices are given for."""
    if node.target is aten.embedding.default:
        return 0
    dim: Any = node.args[1]
    return dim if isinstance(dim, int) else next(d for d, index in enumerate(dim) if index is not None)


def _computes(node: fx.Node) -> bool:
    """Returns whether a call of tensors computes each element of its result from elements at the same place."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or not node.all_input_nodes or target in _LIKE or has_effect(node):
        return False
    return target in _CONVERSIONS or torch.Tag.pointwise in target.tags


def _value(node: fx.Node, known: dict[fx.Node, Tensor]) -> Tensor | None:
    """Returns the number that fills a node's result, as one element of the result's rank; None if it is not uniform or not
    known."""
    meta = node.meta.get("val")
    if not isinstance(meta, Tensor) or meta.dtype not in COMPUTED:
        return None
    shape = [1] * meta.dim()
    if node.op == "get_attr":
        return _constant(node, shape)
    if node.op != "call_function":
        return None
    if node.target in _MADE | _LIKE | _SCALAR:
        number = _number(node)
        return torch.full(shape, number, dtype=meta.dtype) if isinstance(number, int | float) else None
    operands = node.all_input_nodes
    if not operands or any(n not in known for n in operands):
        return None
    if node.target in _VIEWS:
        return known[operands[0]].reshape(shape)
    return _computed(node, known) if _computes(node) else None


def _computed(node: fx.Node, known: dict[fx.Node, Tensor]) -> Tensor | None:
    """Computes one element as eager does; None if eager refuses to, as it does to divide an integer by 0, and for a size."""
    if any(isinstance(arg, torch.SymInt | torch.SymFloat) for arg in (*node.args, *node.kwargs.values())):
        return None
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: known[n])
    try:
        result = node.target(*args, **{k: v for k, v in kwargs.items() if k not in _PLACES})  # type: ignore[operator]
    except RuntimeError:
        return None
    return result if isinstance(result, Tensor) and result.dtype == node.meta["val"].dtype else None


def _constant(node: fx.Node, shape: list[int]) -> Tensor | None:
    value: Any = node.graph.owning_module
    for part in str(node.target).split("."):
        value = getattr(value, part)
    if not isinstance(value, Tensor) or not value.numel() or value.device.type != "cpu":
        return None
    first = value.detach().reshape(-1)[:1]
    is_uniform = bool((value == first).all()) and bool((value.signbit() == first.signbit()).all())  # 0.0 == -0.0
    return first.reshape(shape) if is_uniform else None


def _number(node: fx.Node) -> Any:
    name = node.target._opname  # type: ignore[union-attr]
    if name.startswith(("zeros", "ones")):
        return 1 if name.startswith("ones") else 0
    return node.args[0] if node.target in _SCALAR else node.args[1]
