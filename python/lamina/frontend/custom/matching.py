"""Finds occurrences of a small graph in a large one, node by node from its results back to its arguments.

Non-node arguments are compared in two ways: `exact`, or with all integers left open, for a pattern that was traced for other sizes.
Operands of commutative ops may be swapped.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

aten = torch.ops.aten

_COMMUTATIVE = {
    aten.add.Tensor, aten.mul.Tensor, aten.maximum.default, aten.minimum.default, aten.eq.Tensor, aten.ne.Tensor,
    aten.logical_and.default, aten.logical_or.default, aten.bitwise_and.Tensor, aten.bitwise_or.Tensor,
}  # fmt: skip

Found = Mapping[fx.Node, fx.Node]
"""Maps nodes of the small graph to nodes of the large one."""


@dataclass(frozen=True)
class KernelMatcher:
    """A small graph to find.

    arguments  its placeholders
    results    the nodes that it returns
    exact      whether integers must be equal
    """

    arguments: tuple[fx.Node, ...]
    results: tuple[fx.Node, ...]
    exact: bool

    def matches(self, first: fx.Node, nodes: Sequence[fx.Node], known: Found) -> Iterator[Found]:
        """Yields occurrences whose first result is `first` and whose others are among `nodes`.

        known  nodes that are matched already
        """
        yield from self._results(list(self.results), [first], nodes, known)

    def _results(
        self, wanted: list[fx.Node], candidates: Sequence[fx.Node], nodes: Sequence[fx.Node], bound: Found
    ) -> Iterator[Found]:
        if not wanted:
            if all(argument in bound for argument in self.arguments) and self._is_closed(bound):
                yield bound
            return
        for node in candidates:
            for more in self._node(wanted[0], node, bound):
                yield from self._results(wanted[1:], nodes, nodes, more)

    def _node(self, small: fx.Node, large: Any, bound: Found) -> Iterator[Found]:
        """Yields the ways to match a node of the pattern, and all that it is computed from, to a node of the graph."""
        if small in bound:
            if bound[small] is large:
                yield bound
            return
        if not isinstance(large, fx.Node):
            return
        if small.op == "placeholder":
            if isinstance(large.meta.get("val"), Tensor):
                yield {**bound, small: large}
            return
        if small.op != "call_function" or large.op != "call_function" or small.target is not large.target:
            return
        if set(small.kwargs) != set(large.kwargs) or len(small.args) != len(large.args):
            return
        pairs = [(small.kwargs[name], large.kwargs[name]) for name in small.kwargs]
        orders = [tuple(large.args)]
        if small.target in _COMMUTATIVE and not pairs:
            orders.append((large.args[1], large.args[0], *large.args[2:]))
        for order in orders:
            yield from self._pairs([*zip(small.args, order, strict=True), *pairs], {**bound, small: large})

    def _pairs(self, pairs: Sequence[tuple[Any, Any]], bound: Found) -> Iterator[Found]:
        """Yields the ways to match pairs of arguments of the pattern and the graph, one after the other."""
        if not pairs:
            yield bound
            return
        (small, large), rest = pairs[0], pairs[1:]
        if isinstance(small, fx.Node):
            for more in self._node(small, large, bound):
                yield from self._pairs(rest, more)
        elif isinstance(small, list | tuple) and isinstance(large, list | tuple):
            if len(small) == len(large):
                yield from self._pairs([*zip(small, large, strict=True), *rest], bound)
        elif not isinstance(large, fx.Node) and self._is_same(small, large):
            yield from self._pairs(rest, bound)

    def _is_same(self, small: Any, large: Any) -> bool:
        if not self.exact and type(small) is int and type(large) is int:
            return True
        return type(small) is type(large) and bool(small == large)

    def _is_closed(self, bound: Found) -> bool:
        """Returns whether intermediate values of the occurrence have no users outside of it."""
        inner = {large for small, large in bound.items() if small.op == "call_function" and small not in self.results}
        matched = {large for small, large in bound.items() if small.op == "call_function"}
        return all(user in matched for node in inner for user in node.users)
