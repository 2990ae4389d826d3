"""Renders an explanation as tables."""

import io
import os
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from lamina.runtime.recording.graph_status import Status, Times

from . import choices
from .amounts import amount, counted, duration

if TYPE_CHECKING:
    from .explanation import Explanation, External, Graph, Kernel, Memory, Peaks

WIDTH = 150  # of text that is not printed to a terminal
GUARDS = 12  # kinds and sources shown; all are in the data


def text(explanation: "Explanation") -> str:
    """Returns an explanation as text, WIDTH columns wide."""
    out = io.StringIO()
    Console(file=out, width=WIDTH).print(render(explanation))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def show(explanation: "Explanation") -> None:
    """Prints an explanation to the terminal."""
    console = Console()
    (console if console.is_terminal else Console(width=WIDTH)).print(render(explanation))


def render(explanation: "Explanation") -> RenderableType:
    """Returns an explanation as tables of rich."""
    p = explanation.peaks
    roof = f"copies {amount(p.bandwidth)}B/s, multiplies and adds {amount(p.flops)}flop/s in f32"
    parts: list[RenderableType] = [Text(f"{p.device}, {p.threads} {p.unit}: {roof}")]
    for graph in explanation.graphs:
        parts += ["", *_graph(graph, p)]
    return Group(*parts, "", *_dynamo(explanation))


def _graph(graph: "Graph", p: "Peaks") -> Iterable[RenderableType]:
    after, before = graph.bytes, graph.before
    saved = f", {1 - after / before.bytes:.0%} fewer bytes" if before.bytes > after else ""
    yield Text(graph.name, style="bold")
    if graph.is_eager:
        yield Text("runs eagerly, between compiled parts")
        yield _externals(graph.externals)
        return
    yield Text(f"fusion: {_moving(before.kernels, before.bytes)} -> {_moving(len(graph.kernels), after)}{saved}")
    if graph.kernels:
        yield _kernels(graph.kernels, p)
    if graph.externals:
        yield _externals(graph.externals)
    if graph.choices:
        yield choices.table(graph.choices)
    if graph.products:
        yield Text(graph.products)
    if graph.cuda_graph is not None:
        yield Text(cuda_graph(graph.cuda_graph))
    yield _memory(graph.memory)
    yield _seconds(graph.seconds)


def _moving(kernels: int, nbytes: int) -> str:
    return f"{counted(kernels, 'kernel')} moving {amount(nbytes)}B"


def _kernels(kernels: Iterable["Kernel"], p: "Peaks") -> Table:
    kernels = list(kernels)
    measured = any(k.seconds is not None for k in kernels)
    table = _table("step", "kernel", "ops and their lines", "programs", "bytes", "flops", "flops/byte", "bound by")
    if measured:
        table.add_column("time", justify="right")
        table.add_column("of roof", justify="right")
    else:
        table.add_column("roof", justify="right")
    for k in kernels:
        ops = ", ".join(f"{op}{f' x{n}' if n > 1 else ''}" for op, n in Counter(map(short, k.ops)).items())
        bound = "compute" if k.intensity * p.bandwidth > p.flops else "memory"
        row = [str(k.step), k.name, f"{ops}\n{lines(k.where)}", str(k.programs)]
        row += [amount(k.bytes), amount(k.flops), f"{k.intensity:.2f}", bound]
        if measured:
            row += ["", ""] if k.seconds is None else [duration(k.seconds), f"{p.least(k.bytes, k.flops) / k.seconds:.0%}"]
        else:
            row.append(f"{p.attainable(k.intensity) / p.flops:.1%} of peak")
        table.add_row(*row)
    return table


def _externals(externals: Iterable["External"]) -> Table:
    table = _table("step", "external call", "reason", "result", "line")
    measured = any(e.seconds is not None for e in externals)
    if measured:
        table.add_column("time", justify="right")
    for e in externals:
        reason = f"{e.reason}: {e.why}" if e.why else e.reason
        row = [str(e.step), e.callee, reason, "in place" if e.in_place else "its own memory", lines(e.where)]
        table.add_row(*row, *([duration(e.seconds) if e.seconds is not None else ""] if measured else []))
    return table


def _memory(memory: "Memory") -> Group:
    head = (
        f"memory: arena {amount(memory.arena_bytes)}B; without reuse {amount(memory.sum_bytes)}B; "
        f"most alive at one step {amount(memory.lower_bound)}B"
    )
    places = [p for p in memory.places if p.kind in ("arena", "output", "owned")]
    if not places:
        return Group(head)
    table = _table("buffer", "kind", "filled by", "offset", "bytes", "steps")
    for p in places:
        last = "end" if p.last < 0 else str(p.last)
        offset = str(p.offset) if p.kind == "arena" else ""
        table.add_row(str(p.buffer), p.kind, p.name, offset, amount(p.bytes), f"{p.first} to {last}")
    return Group(head, table)


def _seconds(seconds: dict[str, float]) -> Table:
    total = sum(seconds.values())
    table = _table("stage or pass", "time", "share")
    for name, taken in seconds.items():
        table.add_row(name, duration(taken), f"{taken / total:.0%}" if total else "")
    table.add_row("total", duration(total), "")
    return table


def _dynamo(explanation: "Explanation") -> Iterable[RenderableType]:
    kinds = Counter(g.kind for g in explanation.guards)
    counts = (
        (explanation.graphs, "graph"),
        (explanation.breaks, "graph break"),
        (explanation.guards, "guard"),
        (explanation.recompiles, "recompile"),
    )
    yield Text(", ".join(counted(len(items), name) for items, name in counts))
    for b in explanation.breaks:
        yield Text(f"graph break at {lines(b.where) or 'an unknown line'}: {first_line(b.reason)}")
    for r in explanation.recompiles:
        yield Text(f"recompiled {r.function} at {lines((r.where,))}: {first_line(r.reason)}")
    if kinds:
        table = _table("guard", "count", "on")
        for kind, n in kinds.most_common(GUARDS):
            sources = [g.source for g in explanation.guards if g.kind == kind and g.source]
            table.add_row(kind, str(n), ", ".join(sources[:3]) + (", ..." if len(sources) > 3 else ""))
        yield table


def cuda_graph(status: Status) -> str:
    """Describes whether the steps run as a CUDA graph, why not, the measured times, and what every replay copies."""
    chosen = {"recorded": "CUDA graph: yes", "given up": "CUDA graph: no", "off": "CUDA graph: no"}
    parts = [f"{chosen.get(status.state, 'CUDA graph: chosen after some calls')}{', ' if status.why else ''}{status.why}"]
    if status.steps is not None:
        parts.append(f"one by one {_taken(status.steps)}")
    if status.replays is not None:
        parts.append(f"as a graph {_taken(status.replays)}")
    for count, nbytes, what in (
        (status.copied_in, status.copied_in_bytes, "argument"),
        (status.copied_out, status.copied_out_bytes, "result"),
    ):
        if count:
            parts.append(f"{counted(count, what)} of library calls copied by every replay ({amount(nbytes)}B)")
    if status.aligned:
        parts.append(f"{counted(status.aligned, 'argument')} copied to a multiple of 16 bytes")
    return "; ".join(parts)


def _taken(times: Times) -> str:
    return f"the host takes {duration(times.host)}, the GPU {duration(times.device)}"


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in columns:
        right = column in ("step", "programs", "bytes", "flops", "flops/byte", "offset", "time", "share", "count")
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    return table


def short(op: str) -> str:
    """Returns "aten.add.Tensor" as "add", "aten.native_layer_norm.default" as "layer_norm"."""
    return op.split(".")[1].strip("_").removeprefix("native_") if op.count(".") else op


def lines(where: Iterable[str]) -> str:
    """Returns source lines with files relative to the current folder and lines of one file together: "model.py:12,14". Modules stay
    as they are."""
    files: dict[str, list[str]] = {}
    for place in where:
        file, _, line = place.rpartition(":")
        if not line.isdigit():
            files[place] = []
            continue
        near = os.path.relpath(file) if os.path.isabs(file) else file
        files.setdefault(min(near, file, key=len), []).append(line)
    return "  ".join(f"{file}:{','.join(numbers)}" if numbers else file for file, numbers in files.items())


def first_line(message: str) -> str:
    """Returns the first line of a message; "" for none."""
    return message.strip().splitlines()[0] if message.strip() else ""
