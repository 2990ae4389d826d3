"""Traces the graph that a call of an op becomes under Lamina's decompositions, once for each kind of call.

A kind is the op with its arguments, except for the values of tensors. The traced nodes are copied for every further call of the
kind: a model repeats its layers, and a trace costs milliseconds.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import torch
from torch import Tensor, fx
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import traceback
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from lamina.core.walks import reachable

from ..fx.aliases import is_dense, layout, storage
from ..fx.in_place import is_functional
from ..fx.rewriter import replace
from .table import Table

aten = torch.ops.aten

_UNLIKE_CALLED = (aten.lift_fresh.default,)  # a trace records another op for these
_UNTRACED = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)


@dataclass(frozen=True)
class Expansion:
    """The nodes that a call becomes.

    nodes    these nodes, in order, with placeholders for the arguments
    inputs   the placeholders
    results  what the call returns: nodes, and values that are not tensors
    shared   for each result (a node) that lies in an argument's memory, the number of that argument
    holder   the module with the constants that the nodes name
    """

    nodes: tuple[fx.Node, ...]
    inputs: tuple[fx.Node, ...]
    results: Any
    shared: dict[fx.Node, int]
    holder: fx.GraphModule

    @cached_property
    def is_copyable(self) -> bool:
        """Whether each result is one dense tensor that fills memory of its own, or lies in an argument's memory."""
        own = {n for n in pytree.tree_leaves(self.results) if isinstance(n, fx.Node) and n not in self.shared}
        values = [n.meta["val"] for n in own]
        if not all(isinstance(value, Tensor) and is_dense(value) and not value.storage_offset() for value in values):
            return False
        return len({storage(value) for value in values}) == len(values)


def is_composite(target: torch._ops.OpOverload) -> bool:
    """Returns whether torch itself decomposes the op, in Python or in C++."""
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return key in target.py_kernels or torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), key)


def is_kept_call(target: torch._ops.OpOverload, decompositions: Table) -> bool:
    """Returns whether tracing a call of the op records just that call."""
    if target in decompositions or target in _UNLIKE_CALLED or any(tag in target.tags for tag in _UNTRACED):
        return False
    return not is_composite(target) and all(key is torch._C.DispatchKey.Meta for key in target.py_kernels)


def kind_of(target: Any, args: Any, kwargs: Any, note: str) -> tuple[Hashable, tuple[fx.Node, ...]]:
    """Returns the kind of a call, as a key, and the nodes among its arguments, each once.

    note  what else decides how the call is decomposed
    """
    nodes: dict[fx.Node, int] = {}
    memory: dict[int, int] = {}

    def plain(arg: Any) -> Hashable:
        """Returns an argument as a key: of nodes their layouts, and which are the same or share memory."""
        if isinstance(arg, fx.Node):
            seen = arg in nodes
            number = nodes.setdefault(arg, len(nodes))
            value = arg.meta["val"]
            return (number,) if seen else (number, layout(value), memory.setdefault(storage(value), len(memory)))
        if isinstance(arg, list | tuple):
            return (type(arg).__name__, *map(plain, arg))
        if isinstance(arg, dict):
            return ("dict", *((name, plain(value)) for name, value in arg.items()))
        return (type(arg), repr(arg))  # 1, 1.0 and True are not one kind, nor are 0.0 and -0.0

    key = (target, note, plain(args), plain(kwargs))
    return key, tuple(nodes)


@dataclass(frozen=True)
class TracedCall:
    """A call to trace: `run(*args, **kwargs)`.

    inputs  the nodes among the arguments
    source  the model's lines that make the call, for errors
    """

    run: Callable[..., Any]
    args: Any
    kwargs: Any
    inputs: Sequence[fx.Node]
    source: str


def kept_call_expansion(call: TracedCall, fake: FakeTensorMode) -> Expansion:
    """Returns the expansion of a call that stays as it is."""
    graph = fx.Graph()
    places = {node: _placeholder(graph, node, i) for i, node in enumerate(call.inputs)}
    made = graph.call_function(call.run, *fx.map_arg((call.args, call.kwargs), places.__getitem__))
    with fake:
        made.meta["val"] = _result(call, {node: node.meta["val"] for node in call.inputs})
    return Expansion((made,), tuple(places.values()), made, _shared((made,), call.inputs), fx.GraphModule({}, fx.Graph()))


def trace_expansions(calls: Sequence[TracedCall], fake: FakeTensorMode, decompositions: Table) -> list[Expansion]:
    """Returns the expansions of calls, decomposed by a table.

    All calls go through one trace, as a trace has a fixed cost; each has arguments of its own.
    """

    def flat(*values: Any) -> list[Any]:
        """Returns the results of the traced calls for these values of their nodes."""
        given = iter(values)
        return [_result(call, dict(zip(call.inputs, given, strict=False))) for call in calls]

    with fake, enable_python_dispatcher(), traceback.preserve_node_meta(), _use_lazy_graph_module(True):
        values = [node.meta["val"] for call in calls for node in call.inputs]
        apart = [value.detach() if isinstance(value, Tensor) else value for value in values]
        sizes = _sizes(calls)
        gm = make_fx(flat, decomposition_table=decompositions, tracing_mode="real")(*apart, *sizes)
    for node, size in zip(gm.graph.find_nodes(op="placeholder")[len(apart) :], sizes, strict=True):
        replace(node, size)
    for node in gm.graph.nodes:
        if node.target is aten.as_strided_.default and node.args[0].op != "placeholder":
            node.target = aten.as_strided.default  # it writes no memory, it only changes the view that later nodes see
    places = iter([node for node in gm.graph.nodes if node.op == "placeholder"])
    order = {node: i for i, node in enumerate(gm.graph.nodes)}
    effects = [node for node in order if not is_functional(node)]
    found = []
    for call, results in zip(calls, gm.graph.output_node().args[0], strict=True):
        inputs = tuple(islice(places, len(call.inputs)))
        nodes = tuple(sorted(_dependencies(results, effects), key=order.__getitem__))
        found.append(Expansion(nodes, inputs, results, _shared(pytree.tree_leaves(results), call.inputs), gm))
    return found


def _sizes(calls: Sequence[TracedCall]) -> list[torch.SymInt]:
    """Returns the symbolic sizes that are arguments but no nodes: a trace computes only with sizes that it was given."""
    leaves = pytree.tree_leaves([(call.args, call.kwargs) for call in calls])
    return [size for size in leaves if isinstance(size, torch.SymInt)]


def _result(call: TracedCall, given: dict[fx.Node, Any]) -> Any:
    try:
        return call.run(*fx.map_arg(call.args, given.__getitem__), **fx.map_arg(call.kwargs, given.__getitem__))
    except Exception as error:
        error.add_note(call.source)
        raise


def _dependencies(results: Any, effects: Sequence[fx.Node]) -> set[fx.Node]:
    """Returns the nodes that `results` and `effects` depend on, themselves included. effects: nodes that do more than compute."""
    starts = [*(node for node in pytree.tree_leaves(results) if isinstance(node, fx.Node)), *effects]
    return {node for node in reachable(starts, lambda n: n.all_input_nodes) if node.op != "placeholder"}


def _shared(results: Sequence[Any], inputs: Sequence[fx.Node]) -> dict[fx.Node, int]:
    """Maps each result that lies in an input's memory to the number of the first such input."""
    values = [node.meta["val"] for node in inputs]
    held = {storage(value): i for i, value in reversed(list(enumerate(values))) if isinstance(value, Tensor)}
    found = {}
    for node in results:
        value = node.meta.get("val") if isinstance(node, fx.Node) else None
        if isinstance(value, Tensor) and storage(value) in held:
            found[node] = held[storage(value)]
    return found


def _placeholder(graph: fx.Graph, node: fx.Node, number: int) -> fx.Node:
    made = graph.placeholder(f"argument_{number}")
    made.meta["val"] = node.meta["val"]
    return made
