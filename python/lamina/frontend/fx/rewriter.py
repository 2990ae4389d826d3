"""Inserts nodes into a captured graph, of Dynamo's or ATen's dialect, and keeps their (fake) values and layouts consistent."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from lamina.core.errors import CompileError
from lamina.core.sizes import Size

from .aliases import storage
from .reading import sizes, users, value, writes_to

aten = torch.ops.aten

_PLACES = ("stack_trace", "nn_module_stack")
_FAR = 16  # the most nodes whose layout may change after a graft


@dataclass
class Graft:
    """Calls inserted before a node; the last of them may replace it.

    node   the node
    dead   nodes that become dead when it is replaced
    fake   the fake mode of the graph's values
    calls  the calls, in order
    """

    node: fx.Node
    dead: tuple[fx.Node, ...]
    fake: FakeTensorMode
    calls: list[fx.Node] = field(default_factory=list)

    def number(self, number: float, dtype: torch.dtype, device: torch.device) -> fx.Node:
        """Inserts a tensor without dimensions."""
        return self.call(aten.full.default, [], number, dtype=dtype, device=device)

    def call(self, target: Callable[..., Any], *args: Any, **kwargs: Any) -> fx.Node:
        """Inserts a call of an operator, which is valid in Dynamo's graphs too, and computes its fake value. Symbolic sizes among
        its arguments become nodes. Raises CompileError for a size that no tensor before the node has."""
        args, kwargs = fx.node.map_aggregate((args, kwargs), lambda a: self._size(a) if isinstance(a, Size) else a)
        with self.node.graph.inserting_before(self.node):
            call = self.node.graph.call_function(target, args, kwargs)
        self.calls.append(call)
        call.meta = {place: self.node.meta[place] for place in _PLACES if place in self.node.meta}
        call.meta[_key(self.node)] = _run(call, self.fake)
        return call

    def _size(self, wanted: Size) -> fx.Node:
        """Returns a node with the value of a size: one that the graph has, or the size of a tensor that it computes."""
        for node in self.node.graph.nodes:
            if node is self.node:
                break
            val = node.meta.get(_key(node))
            if isinstance(val, torch.SymInt) and sizes([val]) == (wanted,):
                return node
            if isinstance(val, Tensor) and wanted in (dims := sizes(val.shape)):
                return self.call(aten.sym_size.int, node, dims.index(wanted))
        raise CompileError(f"no tensor has the size {wanted}", remedy="compile per concrete size")

    def undo(self) -> None:
        """Removes the calls."""
        while self.calls:
            self.node.graph.erase_node(self.calls.pop())

    def replace(self) -> None:
        """Moves the last call into the node's place, under the node's name. The node's value stays."""
        last = self.calls.pop()
        self.node.op, self.node.target, self.node.args, self.node.kwargs = "call_function", last.target, last.args, last.kwargs
        last.graph.erase_node(last)


def copied(gm: fx.GraphModule) -> fx.GraphModule:
    """Returns a copy of a graph, with the metadata of its nodes, that holds the same tensors and graphs."""
    graph = fx.Graph()
    graph.output(graph.graph_copy(gm.graph, {})).meta = dict(gm.graph.output_node().meta)
    return fx.GraphModule(gm, graph)


def insert(before: fx.Node, value: Any, target: Any, *args: Any, like: fx.Node | None = None, **kwargs: Any) -> fx.Node:
    """Inserts a call with this value before a node of ATen's dialect. It comes from the same place in the model as `like`, by
    default as that node."""
    with before.graph.inserting_before(before):
        new = before.graph.call_function(target)
    new.args, new.kwargs = args, kwargs  # not at once: torch warns of sizes among them, which the import takes as they are
    new.meta = {key: entry for key, entry in (like or before).meta.items() if key != "tensor_meta"} | {"val": value}
    return new


def insert_number(before: fx.Node, number: Any, like: Tensor) -> fx.Node:
    """Inserts a tensor without dimensions, of the dtype and on the device of `like`, before a node of ATen's dialect."""
    return insert(before, like.new_empty(()), aten.full.default, [], number, dtype=like.dtype, device=like.device)


def replace(node: fx.Node, value: Any) -> None:
    """Replaces a node by another node or by a number, and erases it."""
    substitute(node, value)
    node.graph.erase_node(node)


def substitute(node: fx.Node, value: Any) -> None:
    """Replaces a node by another node or by a number in its users; the node stays."""
    if isinstance(value, fx.Node):
        node.replace_all_uses_with(value)
    for user in list(node.users):
        user.args, user.kwargs = fx.map_arg((user.args, user.kwargs), lambda n: value if n is node else n)


def fake_mode(gm: fx.GraphModule) -> FakeTensorMode | None:
    """Returns the fake mode of all values of a graph; None if there are several, or none."""
    modes = {v.fake_mode for v in map(value, gm.graph.nodes) if isinstance(v, FakeTensor)}
    return modes.pop() if len(modes) == 1 else None


def written_memory(graph: fx.Graph) -> set[int] | None:
    """Returns the storages that calls in a graph may write to; None if that is not known."""
    written: set[int] = set()
    for node in graph.nodes:
        memory = writes_to(node)
        if memory is None:
            return None
        written |= memory
    return written


def takes_layout(node: fx.Node, new: Tensor, fake: FakeTensorMode, written: set[int] | None) -> dict[fx.Node, Tensor] | None:
    """Propagates the layout of `new` from `node` until it meets eager's layout again. Returns the new values of the nodes whose
    layout changes. None if the layouts never meet, if a node cannot accept the new layout, or if memory that is shared
    before or after the change is written to. written: the result of `written_memory`."""
    old = value(node)
    if old is None or sizes(old.shape) != sizes(new.shape) or old.dtype is not new.dtype:
        return None
    if sizes(old.stride()) == sizes(new.stride()):
        return {}
    with torch.no_grad(), fake:
        changed = {node: old.as_strided(new.shape, new.stride(), 0)}  # in the same storage, so that aliases stay known
    touched = {storage(old)}
    waiting, current = set(users(node)), node
    while waiting:
        current = current.next
        if current not in waiting:
            continue
        waiting.remove(current)
        traced, recomputed = value(current), _tried(current, changed, fake)
        if traced is None or recomputed is None or sizes(traced.shape) != sizes(recomputed.shape) or len(changed) > _FAR:
            return None
        touched |= {storage(traced), storage(recomputed)}
        if sizes(traced.stride()) != sizes(recomputed.stride()):
            changed[current] = recomputed
            waiting.update(users(current))
    return None if written is None or touched & written else changed


def store(node: fx.Node, new: Tensor) -> None:
    """Sets the fake value of a node."""
    node.meta[_key(node)] = new


def _tried(node: fx.Node, changed: dict[fx.Node, Tensor], fake: FakeTensorMode) -> Tensor | None:
    if node.op == "output":
        return None
    try:
        found = _run(node, fake, changed)
    except Exception:  # an op may reject the layout by any exception
        return None
    return found if isinstance(found, Tensor) else None


def _run(node: fx.Node, fake: FakeTensorMode, changed: dict[fx.Node, Tensor] | None = None) -> Any:
    def valued(n: fx.Node) -> Any:
        """Returns a node's value, a changed one first."""
        return (changed or {}).get(n, n.meta.get("example_value", n.meta.get("val")))

    args, kwargs = fx.map_arg((node.args, node.kwargs), valued)
    target: Any = getattr(args[0], str(node.target)) if node.op == "call_method" else node.target
    with torch.no_grad(), fake:
        return target(*(args[1:] if node.op == "call_method" else args), **kwargs)


def _key(node: fx.Node) -> str:
    return "example_value" if "example_value" in node.meta else "val"
