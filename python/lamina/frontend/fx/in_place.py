"""Functionalizes in-place ops on values that a graph computes itself (`x += y`, relu_)."""

import torch
from torch import Tensor, fx

from .aliases import layout, storage, tensors

aten = torch.ops.aten

_POINTWISE = {aten.hardswish.default, aten.leaky_relu.default, aten.dropout.default}  # not tagged by some version of torch


def functional_variant(target: object) -> torch._ops.OpOverload | None:
    """Returns the functional variant of an in-place pointwise op: aten.relu.default for aten.relu_.default. None for other ops."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten" or not target._schema.is_mutable:
        return None
    name = target._opname
    packet = getattr(aten, name[:-1], None) if name.endswith("_") and not name.endswith("__") else None
    overload = getattr(packet, target._overloadname, None) if packet is not None else None
    written = [a for a in target._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    if not isinstance(overload, torch._ops.OpOverload) or overload._schema.is_mutable or written != target._schema.arguments[:1]:
        return None
    if _takes(overload) != _takes(target):  # pow_.Scalar(tensor, number), but pow.Scalar(number, tensor)
        return None
    tagged = torch.Tag.pointwise in overload.tags and torch.Tag.nondeterministic_seeded not in overload.tags
    return overload if tagged or overload in _POINTWISE else None


def _takes(target: torch._ops.OpOverload) -> list[str]:
    return [str(a.type) for a in target._schema.arguments]


def same_tensors(graph: fx.Graph) -> dict[fx.Node, tuple[fx.Node, ...]] | None:
    """Maps each in-place node to itself and the earlier nodes that are the same tensor. None if a node writes to memory that the
    graph does not compute, or that is read later in another layout (`part = x[0]; x += 1; part * 2`)."""
    same_as: dict[fx.Node, tuple[fx.Node, ...]] = {}
    groups: dict[int, list[fx.Node]] = {}
    order = {node: i for i, node in enumerate(graph.nodes)}
    for node in order if any(map(_is_mutable, order)) else ():
        value = node.meta.get("val")
        for one in tensors(node):
            groups.setdefault(storage(one), []).append(node)
        if not _is_mutable(node):
            continue
        if functional_variant(node.target) is None or not isinstance(value, Tensor):
            return None
        group = groups[storage(value)]
        same = tuple(other for other in group if [*map(layout, tensors(other))] == [layout(value)])
        others = set(group).difference(same)
        if any(n.op == "placeholder" for n in group) or any(order[user] > order[node] for n in others for user in n.users):
            return None
        same_as[node] = same
    return same_as


def is_functional(node: fx.Node) -> bool:
    """Returns whether a node only computes its results, by its op's schema."""
    schema = getattr(node.target, "_schema", None)
    return schema is None or (not schema.is_mutable and bool(schema.returns))


def _is_mutable(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable
