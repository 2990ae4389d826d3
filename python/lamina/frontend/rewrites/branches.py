"""Inlines torch.cond in an FX graph: both branches are computed and their results selected, so that one graph stays one program.

Branches are pure and neither change nor return their operands (torch.cond checks that), so the only cost is time. Ops that could
fail in the branch that is not taken are protected: their indices become 0 there, and divisors of integers 1. Branches that draw
random numbers are refused.
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
from ..fx.rewriter import insert, insert_number, replace

aten = torch.ops.aten
_TORCH_COND: Any = importlib.import_module("torch._higher_order_ops.cond")  # the package has a function of that name
# Ops that check indices, with the argument that holds them: a tensor, or a list of tensors and None.
_INDEXED = {aten.embedding.default: 1, aten.gather.default: 2, aten.index_select.default: 2, aten.index.Tensor: 1}


@contextmanager
def any_layout() -> Iterator[None]:
    """Allows, while AOTAutograd traces in this thread, the branches' gradients to have different strides, such as those of a
    product and of a transpose do. torch refuses them; in eager each call has the strides of its own branch."""
    thread, plain = threading.get_ident(), _TORCH_COND._merge_output

    def merge(a: Any, b: Any, mode: Any) -> Any:
        """Merges branches' results of different layouts into one with contiguous strides."""
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


def inline(graph: fx.Graph, gm: fx.GraphModule) -> None:
    """Replaces every torch.cond in place. `gm` holds the branches. Raises CompileError for a branch that draws random numbers or
    divides integers by 0."""
    while conds := graph.find_nodes(op="call_function", target=torch.ops.higher_order.cond):
        for cond in conds:
            _inline(graph, gm, cond)


def _inline(graph: fx.Graph, gm: fx.GraphModule, cond: fx.Node) -> None:
    predicate, *branches, operands = cond.args
    with graph.inserting_before(cond):
        if_true, if_false = (_copy(graph, gm, cond, b, operands, predicate, i == 0) for i, b in enumerate(branches))
    chosen = [_choose(cond, i, predicate, a, b) for i, (a, b) in enumerate(zip(if_true, if_false, strict=True))]
    for item in [user for user in cond.users if user.target is operator.getitem]:
        replace(item, chosen[item.args[1]])
    graph.erase_node(cond)
    for branch in branches:
        if not branch.users:
            graph.erase_node(branch)


def _copy(
    graph: fx.Graph, gm: fx.GraphModule, cond: fx.Node, branch: fx.Node, operands: Any, predicate: fx.Node, is_true_branch: bool
) -> list[Any]:
    """Copies the nodes of one branch before the cond and returns the branch's results."""
    inner = attrgetter(str(branch.target))(gm)
    placeholders = inner.graph.find_nodes(op="placeholder")
    mapping: dict[fx.Node, Any] = dict(zip(placeholders, operands, strict=True))
    for node in inner.graph.nodes:
        if node.op == "placeholder":
            continue
        if node.op == "output":
            returned = fx.map_arg(node.args[0], lambda n: mapping[n])
            return list(returned) if isinstance(returned, list | tuple) else [returned]
        if support.may_not_run(node):
            raise CompileError(
                f"a branch of torch.cond holds {origin_of(node) or node.target}, and Lamina computes both branches",
                where=where(node) or where(cond),
                remedy='use an if and torch.compile(model, backend="lamina"), which breaks the graph there',
            )
        copied = graph.node_copy(node, lambda n: mapping[n])
        if node.op == "get_attr":
            copied.target = f"{branch.target}.{node.target}"
        if node.target in _INDEXED:
            _keep(copied, _INDEXED[node.target], predicate, is_true_branch, 0)
        elif support.divides_integers(copied):
            _keep(copied, 1, predicate, is_true_branch, 1)
        mapping[node] = copied
    raise AssertionError("a graph ends in its output")


def _keep(node: fx.Node, position: int, predicate: fx.Node, is_true_branch: bool, harmless: int) -> None:
    """Replaces the integers of an argument by a harmless number where the op's branch is not taken."""
    argument = node.args[position]

    def masked(index: Any) -> Any:
        """Replaces integers in the branch that is not taken."""
        if not isinstance(index, fx.Node):
            return index
        value = index.meta["val"]
        other = insert_number(node, harmless, value)
        pair = (index, other) if is_true_branch else (other, index)
        return insert(node, torch.empty_like(value), aten.where.self, predicate, *pair)

    node.update_arg(position, [masked(index) for index in argument] if isinstance(argument, list | tuple) else masked(argument))


def _choose(cond: fx.Node, index: int, predicate: fx.Node, if_true: Any, if_false: Any) -> Any:
    """Selects result `index` of a cond."""
    value = cond.meta["val"][index]
    return insert(cond, value, aten.where.self, predicate, if_true, if_false) if isinstance(value, Tensor) else if_true
