"""Calls the parts of a split graph (see split.py): values go from part to part."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from lamina.core.errors import CompileError

from ..calls.interface import unboxed
from ..fx.aliases import dense_order
from ..fx.sizes import is_open

Run = Callable[..., Any]


@dataclass(frozen=True)
class Outside:
    """A call that runs eagerly between compiled parts.

    callee  the overload or higher-order op
    why     the reason that no program can hold it
    where   its source line
    """

    callee: str
    why: str
    where: str


@dataclass(frozen=True)
class GraphPart:
    """Consecutive nodes that are all compiled or all run eagerly.

    gm       its nodes as a graph: placeholders are `inputs`, results are `outputs`
    inputs   nodes of the whole graph
    outputs  nodes of the whole graph that later parts or the caller read
    outside  the calls that no program can hold; none in a compiled part
    eager    it is run as FX
    """

    gm: fx.GraphModule
    inputs: tuple[fx.Node, ...]
    outputs: tuple[fx.Node, ...]
    outside: tuple[Outside, ...]
    eager: bool


class Parts:
    """Calls the parts of a graph in order. Each value is kept until the last part that reads it."""

    def __init__(self, gm: fx.GraphModule, parts: Sequence[GraphPart], runs: Sequence[Run]) -> None:
        self._boxed_call = True
        arguments = gm.graph.find_nodes(op="placeholder")
        slots = {n: i for i, n in enumerate(arguments)}
        for part in parts:
            for n in part.outputs:
                slots.setdefault(n, len(slots))
        (returned,) = gm.graph.output_node().args
        self._returned = [(slots.get(o), None if isinstance(o, fx.Node) else o) for o in returned]  # type: ignore[union-attr]
        self._size, self._steps = len(slots), []
        needed = {slot for slot, _ in self._returned}
        for part, run in reversed(list(zip(parts, runs, strict=True))):
            inputs = [slots[n] for n in part.inputs]
            done = [slot for slot in inputs if slot not in needed]
            needed.update(inputs)
            self._steps.append((run, inputs, [slots[n] for n in part.outputs], done))
        self._steps.reverse()

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        """Runs the parts in order. args: the graph's arguments, or one list of them, which is emptied."""
        given = unboxed(args)
        values: list[Any] = [*given, *[None] * (self._size - len(given))]
        del given, args
        for run, inputs, outputs, done in self._steps:
            taken = [values[i] for i in inputs]
            for i in done:
                values[i] = None
            for i, result in zip(outputs, run(taken), strict=True):
                values[i] = result
        return tuple([constant if slot is None else values[slot] for slot, constant in self._returned])


def run_eagerly(gm: fx.GraphModule, values: list[Any]) -> Sequence[Any]:
    """Runs a graph as FX, on the values of one list."""
    with torch.no_grad():
        results: Sequence[Any] = gm.forward(*values)
    return results


class Conforming:
    """A compiled part. Arguments computed eagerly are copied to the layout that it was compiled for, as an op's meta function may
    report another layout than its kernel produces."""

    def __init__(self, run: Run, inputs: Sequence[fx.Node]) -> None:
        self._run = run
        tensors = ((i, n.meta["val"]) for i, n in enumerate(inputs) if n.op != "placeholder" and _is_tensor(n))
        self._made = [(i, _strides_of(value)) for i, value in tensors]

    def __call__(self, values: list[Any]) -> Sequence[Any]:
        """Calls the part on the values of one list."""
        for i, strides_at in self._made:
            value = values[i]
            if not _has_layout(value, strides := strides_at(value.shape)):
                with torch.no_grad():
                    values[i] = torch.empty_strided(value.shape, strides, dtype=value.dtype, device=value.device).copy_(value)
        return self._run(values)


def _strides_of(value: Tensor) -> Callable[[Sequence[int]], Sequence[int]]:
    """Returns a function that gives the strides of a fake tensor for its sizes. Raises CompileError if these do not decide
    them."""
    if not is_open(value):
        strides = value.stride()
        return lambda shape: strides
    order = dense_order(value)
    if order is None:
        raise CompileError("a part of the graph takes a tensor of unknown sizes with gaps", remedy="make it contiguous")

    def of(shape: Sequence[int]) -> Sequence[int]:
        """Returns the strides of a dense tensor of this shape in `order`."""
        found, dense = [0] * len(shape), 1
        for d in reversed(order):
            found[d], dense = dense, dense * max(shape[d], 1)
        return found

    return of


def _is_tensor(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), Tensor)


def _has_layout(value: Tensor, strides: Sequence[int]) -> bool:
    if value.is_conj() or value.is_neg():
        return False
    given = value.stride()
    return given == tuple(strides) or all(n < 2 or a == b for n, a, b in zip(value.shape, given, strides, strict=True))
