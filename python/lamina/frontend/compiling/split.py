"""Splits an FX graph into compiled and eager parts, where one program cannot hold all of it, and compiles the parts.

Calls that no program can hold (see outside) run eagerly as FX, between compiled parts:

    sin -> map_impl -> relu     becomes     [sin, compiled] -> [map_impl, eager] -> [relu, compiled]

Stages alternate: eager stage k comes after compiled stage k. Each node is in the first stage in which its arguments are known, so
that there are as few stages as possible.
"""

import operator
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import torch
from torch import fx

from lamina.core.errors import CompileError
from lamina.core.options import Options

from ..fx import support
from ..fx.effects import WITH_EFFECTS
from ..fx.locations import where
from ..fx.sizes import is_sized
from ..fx.unbacked import computed_sizes
from ..importing.outside import why_outside, why_value
from . import stages
from .parts import Conforming, GraphPart, Outside, Parts, run_eagerly
from .sized import SizedProgram

aten = torch.ops.aten

Run = Callable[..., Any]

Listener = Callable[["stages.Built | SizedProgram | tuple[Outside, ...] | None"], None]
"""Called with each part in order: the built program, the one for all sizes, or the calls that run eagerly. None: what came before
is compiled again."""


def compile_graph(
    gm: fx.GraphModule,
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
    compile_whole = partial(_compile, gm, options, target, listener, watch, frozen)
    makers: Sequence[fx.Node] = ()
    try:
        with computed_sizes(gm.graph) as makers:
            return compile_whole(makers)
    except Exception:  # whatever unknown sizes meet, calls that run eagerly do not
        if not makers or (options is not None and options.strict):
            raise
    if listener is not None:
        listener(None)
    return compile_whole(())


def _compile(
    gm: fx.GraphModule,
    options: Options | None,
    target: str | None,
    listener: Listener | None,
    watch: stages.Watch | None,
    frozen: Collection[int],
    makers: Collection[fx.Node],
) -> Run:
    """Compiles a graph (see compile_graph). makers: calls that make sizes, which later parts may have."""
    compile_one = partial(stages.compile_part, options=options, target=target, listener=listener, watch=watch)
    parts = split(gm, makers)
    if parts is None:
        return compile_one(gm, frozen=frozen)
    if options is not None and options.strict:
        _refuse(parts)
    if is_sized(gm.graph) and not makers:
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
            runs.append(Conforming(compiled, part.inputs))
            continue
        if listener is not None and part.outside:
            listener(part.outside)
        runs.append(partial(run_eagerly, part.gm))
    return Parts(gm, parts, runs)


def _refuse(parts: Sequence[GraphPart]) -> None:
    for part in parts:
        for call in part.outside:
            raise CompileError(
                f"{call.callee} has no lowering and would run as an external call: {call.why}",
                where=call.where,
                remedy="strict is set: rewrite the op, or compile without options.strict and LAMINA_STRICT",
            )


def split(gm: fx.GraphModule, makers: Collection[fx.Node] = ()) -> list[GraphPart] | None:
    """Returns the parts of a graph in order; None if one program holds all of it. makers: calls that run eagerly, as they make
    sizes."""
    reasons = {node: why for node in gm.graph.nodes if (why := why_outside(node, gm)) is not None}
    reasons |= dict.fromkeys(makers, "a size that depends on tensors' values")
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
    """Returns the stage of each call, in the graph's order: even ones are compiled, odd ones run eagerly."""
    stage_of: dict[fx.Node, int] = {}
    effect = barrier = highest = 0
    for node in gm.graph.nodes:
        if node.op == "get_attr" and node in gm.graph.output_node().all_input_nodes:
            stage_of[node] = 1
        if node.op != "call_function":
            continue
        before = max((stage_of[n] for n in node.all_input_nodes if n in stage_of), default=0)
        writes = _writes(node)
        before = max(before, barrier, effect if _has_effect(node, reasons) else 0, highest if writes else 0)
        eager = node in reasons or (before % 2 == 1 and _is_free(node))
        if node.target is operator.getitem and node.args[0] in stage_of:
            stage_of[node] = stage_of[node.args[0]]
            continue
        stage_of[node] = before + (before % 2 != eager)
        highest = max(highest, stage_of[node])
        effect = stage_of[node] if _has_effect(node, reasons) else effect
        barrier = stage_of[node] if writes else barrier
    return stage_of


def _has_effect(node: fx.Node, reasons: dict[fx.Node, str]) -> bool:
    """Returns whether a call must stay in order with others: higher-order ops may draw random numbers or print."""
    return support.has_effect(node) or (node in reasons and not isinstance(node.target, torch._ops.OpOverload))


def _writes(node: fx.Node) -> bool:
    """Returns whether a call writes to its arguments, so that their readers must stay before or after it."""
    target = node.args[1] if node.target is WITH_EFFECTS else node.target
    return isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable


def _is_free(node: fx.Node) -> bool:
    """Returns whether a call computes nothing, so that it may run eagerly after the producer of its argument. Views that set a bit
    of a tensor (conj) are left to programs, which resolve it."""
    target = node.target
    if target in (aten._conj.default, aten._neg_view.default):
        return False
    return isinstance(target, torch._ops.OpOverload) and target.is_view


def _part(gm: fx.GraphModule, nodes: Sequence[fx.Node], outputs: Sequence[fx.Node], reasons: dict[fx.Node, str]) -> GraphPart:
    graph = fx.Graph()
    mapping: dict[fx.Node, fx.Node] = {}
    inside = set(nodes)
    read = {arg: None for node in nodes for arg in node.all_input_nodes if arg not in inside}
    inputs = tuple(n for n in read if n.op != "get_attr")
    for n in inputs:
        mapping[n] = graph.placeholder(n.name)
        mapping[n].meta = dict(n.meta)
    for n in (*(n for n in read if n.op == "get_attr"), *nodes):
        mapping[n] = graph.node_copy(n, mapping.__getitem__)
    graph.output(tuple(mapping[n] for n in outputs))
    outside = tuple(Outside(str(n.target), reasons[n], where(n)) for n in nodes if n in reasons)
    eager = bool(outside) or all(n.op == "get_attr" or n.target is operator.getitem or _is_free(n) for n in nodes)
    return GraphPart(fx.GraphModule(gm, graph), inputs, tuple(outputs), outside, eager)
