"""How large the numbers in a captured graph can be, as far as that shows."""

from typing import Any

import torch
from torch import fx

from .known import concrete
from .reading import given, name, value

_VIEWS = (
    "to", "float", "half", "bfloat16", "double", "type", "type_as", "contiguous", "clone", "alias", "view", "reshape", "unsqueeze",
    "squeeze", "expand", "expand_as", "getitem", "slice", "select", "transpose", "permute",
)  # fmt: skip
_LIKE = {"zeros_like": 0.0, "ones_like": 1.0}

Range = tuple[float, float]


def constant(arg: object, gm: fx.GraphModule) -> float | None:
    """A number in the graph, or one in a tensor of one element that depends on nothing; infinities count."""
    if isinstance(arg, bool) or arg is None:
        return None
    if isinstance(arg, int | float):
        return float(arg)
    told = value(arg)
    if not isinstance(arg, fx.Node) or told is None or told.numel() != 1:
        return None
    found = concrete(arg, gm)
    return None if found is None else float(found)


def bounds(arg: Any, gm: fx.GraphModule) -> Range | None:
    """Finite numbers between which all elements of a floating or boolean tensor lie; None where they may be anything."""
    if not isinstance(arg, fx.Node):
        number = constant(arg, gm)
        return None if number is None else _finite((number, number), arg)
    found = _of_node(arg, gm)
    return None if found is None else _finite(found, arg)


def _of_node(node: fx.Node, gm: fx.GraphModule) -> Range | None:
    told, kind = value(node), name(node)
    if told is None:
        return None
    if told.dtype is torch.bool:
        return 0.0, 1.0
    if kind in _LIKE:
        return _LIKE[kind], _LIKE[kind]
    if kind in _VIEWS:
        return bounds(node.args[0], gm)
    if kind == "where":
        args = given(node, "condition", "input", "other")
        return _hull(bounds(args.get("input"), gm), bounds(args.get("other"), gm))
    if kind == "masked_fill":
        args = given(node, "input", "mask", "value")
        return _hull(bounds(args.get("input"), gm), bounds(args.get("value"), gm))
    if kind in ("add", "sub", "rsub", "mul") and len(node.args) == 2 and not node.kwargs:
        return _arithmetic(kind, bounds(node.args[0], gm), bounds(node.args[1], gm))
    found = concrete(node, gm)
    return None if found is None or not found.numel() else (float(found.min()), float(found.max()))


def _arithmetic(kind: str, one: Range | None, two: Range | None) -> Range | None:
    if one is None or two is None:
        return None
    if kind == "mul":
        ends = [a * b for a in one for b in two]
        return min(ends), max(ends)
    if kind == "rsub":
        one, two = two, one
    return (one[0] + two[0], one[1] + two[1]) if kind == "add" else (one[0] - two[1], one[1] - two[0])


def _hull(one: Range | None, two: Range | None) -> Range | None:
    return None if one is None or two is None else (min(one[0], two[0]), max(one[1], two[1]))


def _finite(found: Range, arg: object) -> Range | None:
    told = value(arg)
    largest = torch.finfo(told.dtype if told is not None and told.dtype.is_floating_point else torch.float32).max
    return found if -largest <= found[0] and found[1] <= largest else None
