"""Value range analysis of captured graphs: bounds on the elements of a tensor, as far as its ops imply them."""

from typing import Any

import torch
from torch import fx

from lamina.core.walks import operands_first

from ..fx.known import known_value
from ..fx.reading import arguments_by_name, name, value

_VIEWS = (
    "to", "float", "half", "bfloat16", "double", "type", "type_as", "contiguous", "clone", "alias", "view", "reshape", "unsqueeze",
    "squeeze", "expand", "expand_as", "getitem", "slice", "select", "transpose", "permute",
)  # fmt: skip
_LIKE = {"zeros_like": 0.0, "ones_like": 1.0}

Range = tuple[float, float]


def constant(arg: object, gm: fx.GraphModule) -> float | None:
    """Returns a number in the graph, or that of a one-element tensor that depends on no argument; infinities count. None for
    others."""
    if isinstance(arg, bool) or arg is None:
        return None
    if isinstance(arg, int | float):
        return float(arg)
    val = value(arg)
    if not isinstance(arg, fx.Node) or val is None or val.numel() != 1:
        return None
    found = known_value(arg, gm)
    return None if found is None else float(found)


def bounds(arg: Any, gm: fx.GraphModule) -> Range | None:
    """Returns finite bounds of all elements of a floating or boolean tensor; None if there are none."""
    known: dict[fx.Node, Range | None] = {}
    starts = [arg] if isinstance(arg, fx.Node) else []
    for node in operands_first(starts, lambda n: [a for a in _sources(n) if isinstance(a, fx.Node)]):
        known[node] = _of(node, known, gm)
    return _of(arg, known, gm)


def _of(arg: Any, known: dict[fx.Node, Range | None], gm: fx.GraphModule) -> Range | None:
    if isinstance(arg, fx.Node):
        interval = known[arg] if arg in known else _node_range(arg, known, gm)
    else:
        number = constant(arg, gm)
        interval = None if number is None else (number, number)
    return None if interval is None else _finite(interval, arg)


def _sources(node: fx.Node) -> tuple[Any, ...]:
    """Returns the operands whose ranges give the range of a node."""
    val, kind = value(node), name(node)
    if val is None or val.dtype is torch.bool or kind in _LIKE:
        return ()
    if kind in _VIEWS:
        return node.args[:1]
    if kind == "where":
        args = arguments_by_name(node, "condition", "input", "other")
        return args.get("input"), args.get("other")
    if kind == "masked_fill":
        args = arguments_by_name(node, "input", "mask", "value")
        return args.get("input"), args.get("value")
    return node.args if kind in ("add", "sub", "rsub", "mul") and len(node.args) == 2 and not node.kwargs else ()


def _node_range(node: fx.Node, known: dict[fx.Node, Range | None], gm: fx.GraphModule) -> Range | None:
    val, kind = value(node), name(node)
    if val is None:
        return None
    if val.dtype is torch.bool:
        return 0.0, 1.0
    if kind in _LIKE:
        return _LIKE[kind], _LIKE[kind]
    if sources := [_of(a, known, gm) for a in _sources(node)]:
        if kind in _VIEWS:
            return sources[0]
        return _hull(*sources) if kind in ("where", "masked_fill") else _arithmetic(kind, *sources)
    found = known_value(node, gm)
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


def _finite(interval: Range, arg: object) -> Range | None:
    val = value(arg)
    largest = torch.finfo(val.dtype if val is not None and val.dtype.is_floating_point else torch.float32).max
    return interval if -largest <= interval[0] and interval[1] <= largest else None
