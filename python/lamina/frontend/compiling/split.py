"""Splits an FX graph into compiled and eager parts, where one program cannot hold all of it, and compiles the parts.

Calls that no program can hold (see outside) run eagerly as FX, between compiled parts:

    sin -> map_impl -> relu     becomes     [sin, compiled] -> [map_impl, eager] -> [relu, compiled]

Stages alternate: eager stage k comes after compiled stage k. Each node is in the first stage in which its arguments are known, so
that there are as few stages as possible.
"""

import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx

from lamina.core.errors import CompileError
from lamina.core.options import Options

from ..calls.interface import unboxed
from ..fx import support
from ..fx.effects import WITH_EFFECTS
from ..fx.locations import where
from ..fx.sizes import is_sized
from ..importing.outside import why_outside, why_value
from . import stages
from .sized import SizedProgram

aten = torch.ops.aten

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


Listener = Callable[["stages.Built | SizedProgram | tuple[Outside, ...]"], None]
"""Called with each part in order: the built program, the one for all sizes, or the calls that run eagerly."""


def compile_graph(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any] = (),
    *,
    options: Options | None = None,
    target: str | None = None,
    listener: Listener | None = None,
    watch: stages.Watch | None = None,
    frozen: Collection[int] = (),
) -> Run:
    """Returns a callable for a functional aten graph on static shapes, with AOTAutograd's boxed convention: it takes the graph's
    arguments in one list, which it empties, or one by one, and returns a tuple of the graph's outputs. Raises CompileError in
    strict mode where a part of the graph runs eagerly.

    frozen  the arguments whose elements do not change in place
    """
    compile_one = partial(stages.compile_graph, options=options, target=target, listener=listener, watch=watch)
    parts = split(gm)
    if parts is None:
        return compile_one(gm, example_inputs, frozen=frozen)
    if options is not None and options.strict:
        _refuse(parts)
    if is_sized(gm.graph):
        call = next((call for part in parts for call in part.outside), None)
        raise CompileError(
            f"{call.callee if call else 'a part'} runs eagerly: {call.why if call else 'it only moves tensors'}",
            where=call.where if call else "",
            remedy="compile per concrete size",
        )
    unchanging = {n for i, n in enumerate(gm.graph.find_nodes(op="placeholder")) if i in frozen}
    runs: list[Run] = []
    for part in parts:
        if not part.eager:
            compiled = compile_one(part.gm, frozen=[i for i, n in enumerate(part.inputs) if n in unchanging])
            runs.append(_Conforming(compiled, part.inputs))
            continue
        if listener is not None and part.outside:
            listener(part.outside)
        runs.append(partial(_run_eagerly, part.gm))
    return Parts(gm, parts, runs)


def _refuse(parts: Sequence[GraphPart]) -> None:
    for part in parts:
        for call in part.outside:
            raise CompileError(
                f"{call.callee} has no lowering and would run as an external call: {call.why}",
                where=call.where,
                remedy="strict is set: rewrite the op, or compile without options.strict and LAMINA_STRICT",
            )


def split(gm: fx.GraphModule) -> list[GraphPart] | None:
    """Returns the parts of a graph in order; None where one program holds all of it."""
    reasons = {node: why for node in gm.graph.nodes if (why := why_outside(node, gm)) is not None}
    odd = any(why_value(node.meta.get("val")) is not None for node in gm.graph.nodes if node.op == "placeholder")
    if not reasons and not odd:
        return None
    stage = _stages(gm, reasons)
    groups: dict[int, list[fx.Node]] = {}
    for node, number in stage.items():
        groups.setdefault(number, []).append(node)
    last: dict[fx.Node, int] = {}
    for node, number in stage.items():
        last |= {arg: max(number, last.get(arg, 0)) for arg in node.all_input_nodes}
    returned = set(gm.graph.output_node().all_input_nodes)
    parts = []
    for number, nodes in sorted(groups.items()):
        kept = [n for n in nodes if n in returned or last.get(n, -1) > number]
        parts.append(_part(gm, nodes, kept, reasons))
    return parts


def _stages(gm: fx.GraphModule, reasons: dict[fx.Node, str]) -> dict[fx.Node, int]:
    """The stage of each call, in the graph's order: even ones are compiled, odd ones run eagerly."""
    found: dict[fx.Node, int] = {}
    effect = barrier = highest = 0
    for node in gm.graph.nodes:
        if node.op == "get_attr" and node in gm.graph.output_node().all_input_nodes:
            found[node] = 1
        if node.op != "call_function":
            continue
        before = max((found[n] for n in node.all_input_nodes if n in found), default=0)
        writes = _writes(node)
        before = max(before, barrier, effect if _has_effect(node, reasons) else 0, highest if writes else 0)
        eager = node in reasons or (before % 2 == 1 and _is_free(node))
        if node.target is operator.getitem and node.args[0] in found:
            found[node] = found[node.args[0]]
            continue
        found[node] = before + (before % 2 != eager)
        highest = max(highest, found[node])
        effect = found[node] if _has_effect(node, reasons) else effect
        barrier = found[node] if writes else barrier
    return found


def _has_effect(node: fx.Node, reasons: dict[fx.Node, str]) -> bool:
    """Returns whether a call must stay in order with others: higher-order ops may draw random numbers or print."""
    return support.has_effect(node) or (node in reasons and not isinstance(node.target, torch._ops.OpOverload))


def _writes(node: fx.Node) -> bool:
    """Returns whether a call writes to its arguments, so that their readers must stay before or after it."""
    target = node.args[1] if node.target is WITH_EFFECTS else node.target
    return isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable


def _is_free(node: fx.Node) -> bool:
    """Whether a call computes nothing, so that it may run eagerly after the producer of its argument. Views that set a bit of a
    tensor (conj) are left to programs, which resolve it."""
    target = node.target
    if target in (aten._conj.default, aten._neg_view.default):
        return False
    return isinstance(target, torch._ops.OpOverload) and target.is_view


def _part(gm: fx.GraphModule, nodes: Sequence[fx.Node], kept: Sequence[fx.Node], reasons: dict[fx.Node, str]) -> GraphPart:
    graph = fx.Graph()
    mapping: dict[fx.Node, fx.Node] = {}
    mine = set(nodes)
    read = {arg: None for node in nodes for arg in node.all_input_nodes if arg not in mine}
    inputs = tuple(n for n in read if n.op != "get_attr")
    for n in inputs:
        mapping[n] = graph.placeholder(n.name)
        mapping[n].meta = dict(n.meta)
    for n in (*(n for n in read if n.op == "get_attr"), *nodes):
        mapping[n] = graph.node_copy(n, mapping.__getitem__)
    graph.output(tuple(mapping[n] for n in kept))
    outside = tuple(Outside(str(n.target), reasons[n], where(n)) for n in nodes if n in reasons)
    eager = bool(outside) or all(n.op == "get_attr" or n.target is operator.getitem or _is_free(n) for n in nodes)
    return GraphPart(fx.GraphModule(gm, graph), inputs, tuple(kept), outside, eager)


class Parts:
    """Calls the parts of a graph in order. Each value is kept until the last part that reads it."""

    def __init__(self, gm: fx.GraphModule, parts: Sequence[GraphPart], runs: Sequence[Run]) -> None:
        self._boxed_call = True
        arguments = [n for n in gm.graph.nodes if n.op == "placeholder"]
        slots = {n: i for i, n in enumerate(arguments)}
        for part in parts:
            for n in part.outputs:
                slots.setdefault(n, len(slots))
        (returned,) = gm.graph.output_node().args
        self._returned = [(slots.get(o), _constant(o)) for o in returned]  # type: ignore[union-attr]
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


def _constant(output: Any) -> Any:
    return None if isinstance(output, fx.Node) else output


def _run_eagerly(gm: fx.GraphModule, values: list[Any]) -> Sequence[Any]:
    """Runs a graph as FX, on the values of one list."""
    with torch.no_grad():
        results: Sequence[Any] = gm.forward(*values)
    return results


class _Conforming:
    """A compiled part. Arguments computed eagerly are copied to the layout that it was compiled for, as an op's meta function may
    report another layout than its kernel produces."""

    def __init__(self, run: Run, inputs: Sequence[fx.Node]) -> None:
        self._run = run
        self._made = [(i, n.meta["val"].stride()) for i, n in enumerate(inputs) if n.op != "placeholder" and _is_tensor(n)]

    def __call__(self, values: list[Any]) -> Sequence[Any]:
        for i, strides in self._made:
            value = values[i]
            if not _has_layout(value, strides):
                with torch.no_grad():
                    values[i] = torch.empty_strided(value.shape, strides, dtype=value.dtype, device=value.device).copy_(value)
        results: Sequence[Any] = self._run(values)
        return results


def _is_tensor(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), Tensor)


def _has_layout(value: Tensor, strides: Sequence[int]) -> bool:
    if value.is_conj() or value.is_neg():
        return False
    given = value.stride()
    return given == strides or all(n < 2 or a == b for n, a, b in zip(value.shape, given, strides, strict=True))
