"""Rewrites the calls of a graph on complex tensors as calls on real ones.

    %z : c64[4] = view_as_complex(%x)              %a = select(%x, 1, 0); %b = select(%x, 1, 1)
    %y : c64[4] = mul(%z, %z)              becomes  %r = a * a - b * b;   %i = a * b + b * a
    %f : c64[4] = fft_c2c(%y, ...)                  %y = view_as_complex(stack(%r, %i)); %f = fft_c2c(%y, ...)
    %o : f32[4] = abs(%f)                           %v = view_as_real(%f); %o = hypot(select(%v, 1, 0), select(%v, 1, 1))

Complex tensors remain where calls without a rule, arguments and results hold them. view_as_complex and view_as_real are the same
memory (see importing), so that nothing is copied there.
"""

from collections import Counter
from typing import Any

import torch
from torch import Tensor, fx
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode

from ..fx.aliases import is_dense, memory_source, storage, tensors
from ..fx.dtypes import REAL
from ..fx.rewriter import insert
from ..fx.support import has_effect
from .moves import takes_complex
from .parts import ComplexValue, Emitter
from .products import RULES

aten = torch.ops.aten


def has_rule(node: fx.Node) -> bool:
    """Returns whether a call on complex tensors becomes calls on real ones."""
    return node.target in RULES and takes_complex(node)


def as_real(graph: fx.Graph) -> bool:
    """Rewrites a functional aten graph in place. Results that are views of others stay views of them. Returns whether there was
    anything to rewrite."""
    nodes = [node for node in graph.nodes if node.op != "output" and _is_odd(node)]
    if not nodes:
        return False
    values = [node.meta["val"] for node in graph.nodes if isinstance(node.meta.get("val"), Tensor)]
    _Rewriter(graph, detect_fake_mode(values) or FakeTensorMode(allow_non_fake_inputs=True)).run()
    return True


def _is_odd(node: fx.Node) -> bool:
    """Returns whether a node holds complex values, or reads values with a neg bit, outside of the calls that stay complex."""
    return takes_complex(node) or node.target is aten._neg_view.default


class _Rewriter:
    """Rewrites one graph.

    complex_values  the complex values of nodes
    viewed          the complex values that view_as_real nodes show
    fixed_views     views that lead from results to what they view: they stay, as nodes of their own
    """

    def __init__(self, graph: fx.Graph, fake: FakeTensorMode) -> None:
        self.graph, self.fake = graph, fake
        self.complex_values: dict[fx.Node, ComplexValue] = {}
        self.viewed: dict[fx.Node, ComplexValue] = {}
        self.returned = set(graph.output_node().all_input_nodes)
        self.fixed_views: set[fx.Node] = set()
        views_of_memory = Counter(storage(value) for node in self.returned for value in tensors(node))
        for node in self.returned:
            views, source = [], node
            while source.op == "call_function" and (behind := memory_source(source)) is not None:
                views.append(source)
                source = behind
            if source.op != "call_function" or not _is_alone(node, views_of_memory):
                self.fixed_views.update(views)

    def run(self) -> None:
        """Rewrites all calls."""
        for node in list(self.graph.nodes):
            if node.op == "output":
                e = Emitter(node, self.fake)
                node.args = fx.map_arg(node.args, lambda n, e=e: self._result(n, e))
            elif node.op in ("placeholder", "get_attr"):
                self._leave(node)
            elif node.op == "call_function":
                self._call(node)
        for node in reversed(list(self.graph.nodes)):
            if node.op == "call_function" and not node.users and not has_effect(node):
                self.graph.erase_node(node)

    def _call(self, node: fx.Node) -> None:
        """Rewrites one call."""
        e = Emitter(node, self.fake)
        if not takes_complex(node):
            self._call_of_reals(node, e)
            return
        if node.target is aten.view_as_real.default:
            self.viewed[node] = self.complex_values[node.args[0]]  # type: ignore[index]
            self._keep(node, e)
            return
        if node.target is aten.view_as_complex.default:
            result: Any = e.to(self._real(node.args[0], e), REAL[node.meta["val"].dtype])
        else:
            result = self._by_rule(node, e)
        if result is NotImplemented:
            node.args, node.kwargs = fx.map_arg((node.args, node.kwargs), lambda n: self._complex(self._real(n, e), e))
            self._leave(node)
            return
        value = node.meta["val"]
        if not (isinstance(value, Tensor) and value.dtype in REAL):
            real = e.filled(result[0], value) if isinstance(result, tuple) else result  # what numbers fill has the real one
            self._replace(node, e, e.to(real, value.dtype))
            return
        if memory_source(node) is not None or value.is_conj() or value.is_neg():  # a new tensor views nothing
            value = e.empty(value.shape, value.dtype, value.device, value.stride())
        self.complex_values[node] = _complex_value(result, value, e)
        if node in self.fixed_views:
            self._keep(node, e)

    def _call_of_reals(self, node: fx.Node, e: Emitter) -> None:
        """Rewrites a call that takes no complex value: it reads real ones in place of those that were views of complex ones."""
        if node.target is aten._neg_view.default:
            self._replace(node, e, e(aten.neg.default, self._real(node.args[0], e)))
            return
        if node.target is aten.select.int and (value := self.viewed.get(node.args[0])) is not None:  # type: ignore[arg-type]
            dim, index = node.args[1] % (value.rank + 1), node.args[2]  # type: ignore[operator]
            if dim == value.rank and isinstance(index, int):
                self._replace(node, e, e.filled(e.part(value, index % 2), value.like))
                return
        if node not in self.fixed_views:
            node.args, node.kwargs = fx.map_arg((node.args, node.kwargs), lambda n: self._real(n, e))

    def _by_rule(self, node: fx.Node, e: Emitter) -> Any:
        rule = RULES.get(node.target)
        if rule is None or any(_is_half(n.meta.get("val")) for n in (node, *node.all_input_nodes)):
            return NotImplemented

        def real_or_complex(n: fx.Node) -> Any:
            """Returns an argument's complex value, or its real node."""
            return self.complex_values.get(n) or self._real(n, e)

        args, kwargs = fx.map_arg((node.args, node.kwargs), real_or_complex)
        return rule(e, *args, **kwargs)

    def _replace(self, node: fx.Node, e: Emitter, result: fx.Node) -> None:
        """Puts a real node in the place of a call whose result is real, except for results that view others."""
        if node in self.fixed_views:
            self._keep(node, e)
            node.replace_all_uses_with(result, delete_user_cb=lambda user: user.op != "output" and user not in self.fixed_views)
            return
        if node in self.returned:
            result = insert(node, node.meta["val"], aten.clone.default, result)
        node.replace_all_uses_with(result)
        self.graph.erase_node(node)

    def _keep(self, node: fx.Node, e: Emitter) -> None:
        """Leaves a call that results view as a node: it takes the complex tensors that it took."""
        if node in self.fixed_views:
            node.args = fx.map_arg(node.args, lambda n: self._complex(n, e))

    def _leave(self, node: fx.Node) -> None:
        if isinstance(node.meta.get("val"), Tensor) and node.meta["val"].dtype in REAL:
            self.complex_values[node] = ComplexValue(node.meta["val"], node=node)

    def _real(self, node: Any, e: Emitter) -> Any:
        """Returns the replacement of a real node: for a view of a complex tensor, both of its parts."""
        value = self.viewed.get(node)
        return node if value is None else e.whole(value)

    def _result(self, node: fx.Node, e: Emitter) -> fx.Node:
        """Returns the replacement of a result of the graph."""
        if node in self.viewed and node not in self.fixed_views:
            return insert(e.before, node.meta["val"], aten.clone.default, self._real(node, e), like=node)
        return self._complex(node, e)

    def _complex(self, node: fx.Node, e: Emitter) -> fx.Node:
        """Returns the replacement of a node where complex tensors stay."""
        if node in self.fixed_views or node not in self.complex_values:
            return node
        return e.complex_node(self.complex_values[node])


def _is_half(value: Any) -> bool:
    """Returns whether a value has a complex dtype whose parts no program computes."""
    return isinstance(value, Tensor) and value.dtype.is_complex and value.dtype not in REAL


def _is_alone(node: fx.Node, views_of_memory: Counter[int]) -> bool:
    """Returns whether a result can be computed as a tensor of its own: no other shares its memory, which it fills."""
    value = node.meta.get("val")
    return (
        isinstance(value, Tensor)
        and views_of_memory[storage(value)] == 1
        and is_dense(value)
        and not (value.is_conj() or value.is_neg())
    )


def _complex_value(result: Any, value: Tensor, e: Emitter) -> ComplexValue:
    """Returns the result of a rule for a call as a complex value. result: the real node of all of it, its parts, or a value with
    memory of its own."""
    if isinstance(result, fx.Node):
        return ComplexValue(value, whole=e.to(result, REAL[value.dtype]))  # type: ignore[arg-type]
    if isinstance(result, tuple):
        return ComplexValue(value, parts=tuple(e.filled(p, value) if isinstance(p, fx.Node) else p for p in result))
    return ComplexValue(value, parts=result.parts, whole=e.whole(result) if result.parts is None else result.whole)
