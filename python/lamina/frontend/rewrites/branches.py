"""Inlines torch.cond in an FX graph: both branches are computed and their results selected, so that one graph stays one program.

Branches are pure and neither change nor return their operands (torch.cond checks that), so the only cost is time. Ops that could
fail in the branch that is not taken are protected: their indices become 0 there. Branches that draw random numbers are refused.
"""

import importlib
import operator
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensor

from lamina.core.errors import CompileError

from ..fx import support
from ..fx.locations import origin_of, where

aten = torch.ops.aten
_TORCH_COND: Any = importlib.import_module("torch._higher_order_ops.cond")  # the package has a function of that name
# Ops that check indices, with the argument that holds them: a tensor, or a list of tensors and None.
_INDEXED = {aten.embedding.default: 1, aten.gather.default: 2, aten.index_select.default: 2, aten.index.Tensor: 1}


@contextmanager
def any_layout() -> Iterator[None]:
    """While AOTAutograd traces in this thread, allows the branches' gradients to have different strides, as those of a product and
    of a transpose do. torch refuses them; in eager each call has the strides of its own branch."""
    thread, plain = threading.get_ident(), _TORCH_COND._merge_output

    def merge(a: Any, b: Any, mode: Any) -> Any:
        try:
            return plain(a, b, mode)
        except (RuntimeError, AssertionError):
            if threading.get_ident() != thread or type(a) is not FakeTensor or type(b) is not FakeTensor:
                raise
            with mode:
                dense = torch.empty_like(a)
                return plain(dense, torch.empty_strided(b.shape, dense.stride(), dtype=b.dtype, device=b.device), mode)

    _TORCH_COND._merge_output = merge
    try:
        yield
    finally:
        _TORCH_COND._merge_output = plain


def inline(graph: fx.Graph, outputs: list[Any], gm: fx.GraphModule) -> list[Any]:
    """Replaces every torch.cond in place and returns the updated outputs. `gm` holds the branches. Raises CompileError for a branch
    that draws random numbers or divides integers by a tensor."""
    while conds := [n for n in graph.nodes if n.op == "call_function" and n.target is torch.ops.higher_order.cond]:
        for cond in conds:
            outputs = _inline(graph, outputs, gm, cond)
    return outputs


def _inline(graph: fx.Graph, outputs: list[Any], gm: fx.GraphModule, cond: fx.Node) -> list[Any]:
    predicate, *branches, operands = cond.args
    with graph.inserting_before(cond):
        taken, other = (_copy(graph, gm, cond, b, operands, predicate, i == 0) for i, b in enumerate(branches))
        chosen = [_choose(graph, cond, i, predicate, a, b) for i, (a, b) in enumerate(zip(taken, other, strict=True))]
    for item in [user for user in cond.users if user.target is operator.getitem]:
        value = chosen[item.args[1]]
        if isinstance(value, fx.Node):
            item.replace_all_uses_with(value)
        outputs = [value if o is item else o for o in outputs]
        graph.erase_node(item)
    graph.erase_node(cond)
    for branch in branches:
        if not branch.users:
            graph.erase_node(branch)
    return outputs


def _copy(
    graph: fx.Graph, gm: fx.GraphModule, cond: fx.Node, branch: fx.Node, operands: Any, predicate: fx.Node, taken: bool
) -> list[Any]:
    """Copies the nodes of one branch before the cond and returns the branch's results."""
    inner = attrgetter(str(branch.target))(gm)
    placeholders = [n for n in inner.graph.nodes if n.op == "placeholder"]
    mapping: dict[fx.Node, Any] = dict(zip(placeholders, operands, strict=True))
    for node in inner.graph.nodes:
        if node.op == "placeholder":
            continue
        if node.op == "output":
            returned = fx.map_arg(node.args[0], lambda n: mapping[n])
            return list(returned) if isinstance(returned, list | tuple) else [returned]
        if support.has_effect(node) or support.divides_integers(node):
            raise CompileError(
                f"a branch of torch.cond holds {origin_of(node) or node.target}, and Lamina computes both branches",
                where=where(node) or where(cond),
                remedy='use an if and torch.compile(model, backend="lamina"), which breaks the graph there',
            )
        copied = graph.node_copy(node, lambda n: mapping[n])
        if node.op == "get_attr":
            copied.target = f"{branch.target}.{node.target}"
        if node.target in _INDEXED:
            _keep_inside(graph, copied, predicate, taken)
        mapping[node] = copied
    raise AssertionError("a graph ends in its output")


def _keep_inside(graph: fx.Graph, node: fx.Node, predicate: fx.Node, taken: bool) -> None:
    """Replaces the op's indices by 0 where its branch is not taken."""
    position = _INDEXED[node.target]
    given = node.args[position]

    def masked(index: Any) -> Any:
        if not isinstance(index, fx.Node):
            return index
        value = index.meta["val"]
        zero = graph.call_function(aten.full.default, ([], 0), {"dtype": value.dtype, "device": value.device})
        zero.meta = _meta(node, value.new_empty(()))
        pair = (index, zero) if taken else (zero, index)
        chosen = graph.call_function(aten.where.self, (predicate, *pair))
        chosen.meta = _meta(node, torch.empty_like(value))
        return chosen

    with graph.inserting_before(node):
        replaced = [masked(index) for index in given] if isinstance(given, list | tuple) else masked(given)
    node.args = (*node.args[:position], replaced, *node.args[position + 1 :])


def _choose(graph: fx.Graph, cond: fx.Node, index: int, predicate: fx.Node, taken: Any, other: Any) -> Any:
    """Selects result `index` of a cond."""
    value = cond.meta["val"][index]
    if not isinstance(value, Tensor):
        return taken
    chosen = graph.call_function(aten.where.self, (predicate, taken, other))
    chosen.meta = _meta(cond, value)
    return chosen


def _meta(node: fx.Node, value: Tensor) -> dict[str, Any]:
    """The metadata of `node`, such as its source lines, for another value."""
    return {**{key: held for key, held in node.meta.items() if key != "tensor_meta"}, "val": value}
