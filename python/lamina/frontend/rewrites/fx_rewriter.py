"""New nodes in a captured graph of either dialect, with their (fake) values."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from ..calls.aliases import storage
from .reading import users, value, writes_to

_PLACES = ("stack_trace", "nn_module_stack")
_FAR = 16  # nodes that may take another layout after a graft


@dataclass
class Graft:
    """Calls put before a node, which the last of them may replace. gone: nodes that are not needed then."""

    at: fx.Node
    gone: tuple[fx.Node, ...]
    fake: FakeTensorMode
    made: list[fx.Node] = field(default_factory=list)

    def call(self, target: Callable[..., Any], *args: Any, **kwargs: Any) -> fx.Node:
        """A call of an operator, which Dynamo's graphs take too."""
        with self.at.graph.inserting_before(self.at):
            node = self.at.graph.call_function(target, args, kwargs)
        self.made.append(node)
        node.meta = {place: self.at.meta[place] for place in _PLACES if place in self.at.meta}
        node.meta[_key(self.at)] = _run(node, self.fake)
        return node

    def undo(self, number: int = 0) -> None:
        """Without the calls from this one on."""
        while len(self.made) > number:
            node = self.made.pop()
            node.graph.erase_node(node)

    def replace(self) -> None:
        """The last call takes the place and the name of the node. Its value stays."""
        last = self.made.pop()
        self.at.op, self.at.target, self.at.args, self.at.kwargs = "call_function", last.target, last.args, last.kwargs
        last.graph.erase_node(last)


def fake_mode(gm: fx.GraphModule) -> FakeTensorMode | None:
    """That of all values of a graph; None where there are several, or none."""
    modes = {v.fake_mode for v in map(value, gm.graph.nodes) if isinstance(v, FakeTensor)}
    return modes.pop() if len(modes) == 1 else None


def written_memory(graph: fx.Graph) -> set[int] | None:
    """All that calls in a graph may write to; None where that is not known."""
    found: set[int] = set()
    for node in graph.nodes:
        memory = writes_to(node)
        if memory is None:
            return None
        found |= memory
    return found


def takes_layout(node: fx.Node, new: Tensor, fake: FakeTensorMode, written: set[int] | None) -> dict[fx.Node, Tensor] | None:
    """The values of the nodes whose layout changes where `node` has the layout of `new`: until eager's is met again. None where it
    is not, where a node cannot take it, or where memory that is then shared, or no longer, is written to. written: as
    `written_memory` has it."""
    old = value(node)
    if old is None or old.shape != new.shape or old.dtype is not new.dtype:
        return None
    if old.stride() == new.stride():
        return {}
    with torch.no_grad(), fake:
        changed = {node: old.as_strided(new.shape, new.stride(), 0)}  # in the same memory, as what is told by it stays told
    touched = {storage(old)}
    waiting, at = set(users(node)), node
    while waiting:
        at = at.next
        if at not in waiting:
            continue
        waiting.remove(at)
        mine, found = value(at), _tried(at, changed, fake)
        if mine is None or found is None or mine.shape != found.shape or len(changed) > _FAR:
            return None
        touched |= {storage(mine), storage(found)}
        if mine.stride() != found.stride():
            changed[at] = found
            waiting.update(users(at))
    return None if written is None or touched & written else changed


def store(node: fx.Node, new: Tensor) -> None:
    node.meta[_key(node)] = new


def _tried(node: fx.Node, changed: dict[fx.Node, Tensor], fake: FakeTensorMode) -> Tensor | None:
    if node.op == "output":
        return None
    try:
        found = _run(node, fake, changed)
    except Exception:  # whatever an op says of this layout
        return None
    return found if isinstance(found, Tensor) else None


def _run(node: fx.Node, fake: FakeTensorMode, changed: dict[fx.Node, Tensor] | None = None) -> Any:
    def valued(n: fx.Node) -> Any:
        return (changed or {}).get(n, n.meta.get("example_value", n.meta.get("val")))

    args, kwargs = fx.map_arg((node.args, node.kwargs), valued)
    target: Any = getattr(args[0], str(node.target)) if node.op == "call_method" else node.target
    with torch.no_grad(), fake:
        return target(*(args[1:] if node.op == "call_method" else args), **kwargs)


def _key(node: fx.Node) -> str:
    return "example_value" if "example_value" in node.meta else "val"
