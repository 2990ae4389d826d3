"""Formats tables of symbolic sizes for `explain`: the sizes and conditions of a graph, and what a call with other sizes would
do."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from .amounts import amount, counted
from .plain import plain_table

if TYPE_CHECKING:
    from lamina.core.sizes.facts import SizeFacts

    from .at_sizes import AtSizes, GraphAtSizes, Outcome
    from .explanation import Graph

_OUTCOMES: "Mapping[Outcome, str]" = {
    "known": "runs the compiled program, which has met these sizes",
    "new": "runs the compiled program; the first call plans memory for these sizes",
    "compiled": "compiles anew",
    "refused": "is refused",
    "unknown": "is not known",
}


def graph_sizes(graph: "Graph") -> Iterable[RenderableType]:
    """Yields the part about sizes of a graph's report."""
    kept = f" (the last {graph.kept} are kept)"
    if graph.per_size:
        yield Text(f"compiled once per size, as {graph.per_size}: {counted(graph.bound, 'set')} of sizes{kept}")
    if graph.symbols:
        yield Text(
            f"compiled for all sizes, bound to {counted(graph.bound, 'set')} of them{kept}; figures are for the typical ones"
        )
        yield plain_table(("size", "typical", "range", "read from"), map(_symbol, graph.symbols))
    for sizes in graph.specialized:
        yield Text(f"a program of its own serves {', '.join(f'{name} = {size}' for name, size in sizes.items())}")
    if graph.conditions and (graph.symbols or graph.per_size):
        yield Text("sizes that break one of these conditions are compiled anew or refused:")
        rows = ((c.text, f"{c.where} {c.code}".strip() or "unknown", c.by) for c in graph.conditions)
        yield plain_table(("condition", "asked for at", "by"), rows)


def _symbol(s: "SizeFacts") -> tuple[str, ...]:
    span = f"{s.minimum} and more" if s.maximum is None else f"{s.minimum} to {s.maximum}"
    name = f"{s.name} ({s.called})" if s.called else s.name
    return name, str(s.typical), f"{span}, multiples of {s.factor}" if s.factor > 1 else span, "; ".join(s.read)


def at_sizes(effects: "AtSizes") -> RenderableType:
    """Formats what a call with other sizes would do."""
    return Group(*(part for graph in effects.graphs for part in _graph_at_sizes(graph)))


def _graph_at_sizes(graph: "GraphAtSizes") -> Iterable[RenderableType]:
    sizes = "; ".join(f"{name} = {size}" for name, size in graph.sizes.items())
    yield Text(f"{graph.name}{f' at {sizes}' if sizes else ''}: {_OUTCOMES[graph.outcome]}{f': {graph.why}' if graph.why else ''}")
    for part in graph.parts:
        steps = {k.step: (k.kernel, str(k.programs), amount(k.bytes), amount(k.flops)) for k in part.kernels}
        steps |= {e.step: (e.callee, "", "", "") for e in part.externals}
        yield Text(f"{part.name}: arena {amount(part.memory.arena_bytes)}B")
        rows = ((str(step), *steps[step]) for step in sorted(steps))
        yield plain_table(("step", "kernel or call", "programs", "bytes", "flops"), rows)
    if graph.cuda_graph:
        yield Text(f"CUDA graph: {graph.cuda_graph}")
