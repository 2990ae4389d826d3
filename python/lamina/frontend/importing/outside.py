"""Decides which nodes of an aten graph no program can hold, and why; these run eagerly between compiled parts (see split)."""

import operator
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensor

from ..complex_numbers.rewrite import has_rule
from ..fx import support
from ..fx.aliases import covers, memory_source
from ..fx.effects import WITH_EFFECTS
from ..fx.sizes import SYMBOLIC, is_known

_COND = torch.ops.higher_order.cond
_PLAIN = (bool, float, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)
_KNOWN = {Tensor, torch.nn.Parameter, FakeTensor}


def why_outside(node: fx.Node, gm: fx.GraphModule) -> str | None:
    """Returns the reason that keeps a call out of a program, or None. `gm` holds the graphs and objects that the node's arguments
    name."""
    if node.op != "call_function" or node.target is operator.getitem:
        return None  # an item belongs to the part of the call that made it
    if isinstance(node.meta.get("val"), SYMBOLIC) and is_known(node.meta["val"]):
        return None  # arithmetic on sizes
    target, args = node.target, node.args
    if target is WITH_EFFECTS and len(args) > 1:
        target, args = args[1], args[2:]  # type: ignore[assignment]
    if target is _COND:
        return _why_branches(node, gm)
    if target is torch.ops.aten.as_strided.default and _reads_memory(node):
        return "a place in the memory of an input, which may hold more than the input's elements"
    if not isinstance(target, torch._ops.OpOverload):
        return "a higher-order op" if isinstance(target, torch._ops.HigherOrderOperator) else "no op of torch"
    numbers = has_rule(node)
    for arg in (*args, *node.kwargs.values()):
        if (found := _why_argument(arg, gm)) is not None and not (numbers and isinstance(arg, complex)):
            return found
    results = _results(node)
    if isinstance(results, list | tuple):  # numbers next to tensors, such as the longest of several sequences, are known
        return why_value(results)
    return why_value(results, result=True)


def why_value(value: Any, result: bool = False) -> str | None:
    """Returns the reason that a program can neither take nor return a value, or None. result: it is the result of a call, which
    cannot be a number."""
    if isinstance(value, list | tuple):
        return next((found for v in value if (found := why_value(v)) is not None), None)
    if isinstance(value, SYMBOLIC):
        return None if is_known(value) else "a number that depends on tensors' values"
    if not isinstance(value, Tensor):
        plain = value is None or (not result and isinstance(value, int | float | str))
        return None if plain else f"a result of type {type(value).__name__}" if result else f"a {type(value).__name__}"
    if type(value) not in _KNOWN:
        return f"a tensor of type {type(value).__name__}"
    if value.layout is not torch.strided:
        return f"a tensor of layout {value.layout}"
    if value.dtype not in support.CARRIED:
        return f"a tensor of dtype {value.dtype}"
    if not all(map(is_known, (*value.shape, *value.stride(), value.storage_offset()))):
        return "a size that depends on tensors' values"
    return None


def _reads_memory(node: fx.Node) -> bool:
    """Returns whether a strided view reads memory of an input that the input's elements do not cover: `storage_offset` counts from
    the start of that memory, and the view may reach around and between the elements. A view that is only returned reads nothing."""
    if _is_only_returned(node):
        return False
    base = node.args[0]
    while (source := memory_source(base)) is not None:
        base = source
    if base.op != "placeholder":
        return False
    offset = node.args[3] if len(node.args) > 3 else node.kwargs.get("storage_offset")
    return offset is not None or not covers(base.meta["val"], node.meta["val"])


def _is_only_returned(node: fx.Node) -> bool:
    """Returns whether a node's only uses are results of the graph, and views that are results."""
    return all(user.op == "output" or (memory_source(user) is node and _is_only_returned(user)) for user in node.users)


def _results(node: fx.Node) -> Any:
    """Returns the results of a call, without the effect token that may come first."""
    value = node.meta.get("val")
    return value[1:] if node.target is WITH_EFFECTS and isinstance(value, tuple) else value


def _why_argument(arg: Any, gm: fx.GraphModule) -> str | None:
    if isinstance(arg, fx.Node):
        if arg.op == "get_attr":
            held = attrgetter(str(arg.target))(gm)
            return why_value(held) if isinstance(held, Tensor) else f"an argument of type {type(held).__name__}"
        return why_value(arg.meta.get("val"))
    if isinstance(arg, list | tuple):
        return next((found for a in arg if (found := _why_argument(a, gm)) is not None), None)
    if type(arg) is int:
        return None if -(2**63) <= arg < 2**63 else "an integer of more than 64 bits"
    if isinstance(arg, SYMBOLIC):
        return why_value(arg)
    return None if isinstance(arg, _PLAIN) else f"an argument of type {type(arg).__name__}"


def _why_branches(node: fx.Node, gm: fx.GraphModule) -> str | None:
    """Returns why torch.cond cannot be in a program: it computes both branches and selects, so neither may do more than compute."""
    for branch in node.args[1:3]:
        inner = attrgetter(str(branch.target))(gm)  # type: ignore[union-attr]
        for n in inner.graph.nodes if isinstance(inner, fx.GraphModule) else ():
            if n.op == "call_function" and support.may_not_run(n):
                return f"a branch with {n.target}, which may run only where it is taken"
            if (found := why_outside(n, inner)) is not None:
                return f"a branch with {found}"
    return _why_argument(node.args[0], gm) or _why_argument(node.args[3], gm) or why_value(node.meta.get("val"))
