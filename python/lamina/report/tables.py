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

from . import choices, sizes
from .amounts import amount, counted, duration
from .plain import WIDTH, plain_table, wide_console

if TYPE_CHECKING:
    from .explanation import Explanation, External, Graph, KernelStep, Memory, Peaks

GUARDS = 12  # kinds and sources shown; all are in the data
MOST_RANGES = 8  # shown of one step


def text(tables: RenderableType) -> str:
    """Returns tables as text, WIDTH columns wide."""
    out = io.StringIO()
    Console(file=out, width=WIDTH).print(tables)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def show(tables: RenderableType) -> None:
    """Prints tables to the terminal."""
    wide_console().print(tables)


def render(explanation: "Explanation") -> RenderableType:
    """Returns an explanation as tables of rich."""
    p = explanation.peaks
    roof = f"copies {amount(p.bandwidth)}B/s, multiplies and adds {amount(p.flops)}flop/s in f32"
    parts: list[RenderableType] = [Text(f"{p.device}, {p.threads} {p.unit}: {roof}")]
    for graph in explanation.graphs:
        parts += ["", *_graph(graph, p)]
    return Group(*parts, "", *_dynamo(explanation))


def _ranges(kernel: "KernelStep") -> str:
    """Returns the kernels that compute a step, with the sizes that each is for. Of many, it names the one in use and the last."""
    if len(kernel.ranges) <= MOST_RANGES:
        return f"step {kernel.step} has kernels for ranges of sizes: {'; '.join(kernel.ranges)}"
    used = [text for text in kernel.ranges if text.startswith(f"{kernel.kernel} ")]
    named = "; ".join(dict.fromkeys((*used, kernel.ranges[-1])))
    return f"step {kernel.step} has kernels for {len(kernel.ranges)} ranges of sizes, such as {named}"


def _graph(graph: "Graph", p: "Peaks") -> Iterable[RenderableType]:
    after, before = graph.bytes, graph.before
    saved = f", {1 - after / before.bytes:.0%} fewer bytes" if before.bytes > after else ""
    yield Text(graph.name, style="bold")
    if graph.is_eager:
        yield Text("runs eagerly, between compiled parts")
        yield _externals(graph.externals)
        return
    yield from sizes.graph_sizes(graph)
    yield Text(f"fusion: {_moving(before.kernels, before.bytes)} -> {_moving(len(graph.kernels), after)}{saved}")
    if graph.kernels:
        yield _kernels(graph.kernels, p)
        for kernel in graph.kernels:
            if kernel.ranges:
                yield Text(_ranges(kernel))
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


def _kernels(kernels: Iterable["KernelStep"], p: "Peaks") -> Table:
    kernels = list(kernels)
    measured = any(k.seconds is not None for k in kernels)
    columns = ("step", "kernel", "ops and their lines", "programs", "bytes", "flops", "flops/byte", "bound by")
    return plain_table((*columns, *(("time", "of roof") if measured else ("roof",))), (_kernel(k, p, measured) for k in kernels))


def _kernel(k: "KernelStep", p: "Peaks", measured: bool) -> list[str]:
    ops = ", ".join(f"{op}{f' x{n}' if n > 1 else ''}" for op, n in Counter(map(short, k.ops)).items())
    bound = "compute" if k.intensity * p.bandwidth > p.flops else "memory"
    programs = "\n".join(filter(None, (str(k.programs), k.programs_by_size)))
    nbytes = "\n".join(filter(None, (amount(k.bytes), k.bytes_by_size)))
    row = [str(k.step), k.name, f"{ops}\n{lines(k.where)}", programs, nbytes, amount(k.flops)]
    row += [f"{k.intensity:.2f}", bound]
    if not measured:
        return [*row, f"{p.attainable(k.intensity) / p.flops:.1%} of peak"]
    return [*row, *(["", ""] if k.seconds is None else [duration(k.seconds), f"{p.least(k.bytes, k.flops) / k.seconds:.0%}"])]


def _externals(externals: Iterable["External"]) -> Table:
    time = ("time",) if any(e.seconds is not None for e in externals) else ()
    rows = []
    for e in externals:
        reason = f"{e.reason}: {e.why}" if e.why else e.reason
        taken = "" if e.seconds is None else duration(e.seconds)
        rows.append(
            [str(e.step), e.callee, reason, "in place" if e.in_place else "its own memory", lines(e.where), *(taken for _ in time)]
        )
    return plain_table(("step", "external call", "reason", "result", "line", *time), rows)


def _memory(memory: "Memory") -> Group:
    head = (
        f"memory: arena {amount(memory.arena_bytes)}B; without reuse {amount(memory.sum_bytes)}B; "
        f"most alive at one step {amount(memory.lower_bound)}B"
    )
    rows = []
    for p in (p for p in memory.places if p.kind in ("arena", "output", "owned")):
        offset = str(p.offset) if p.kind == "arena" else ""
        steps = f"{p.first} to {'end' if p.last < 0 else p.last}"
        rows.append((str(p.buffer), p.kind, p.name, offset, amount(p.bytes), steps))
    return Group(head, *([plain_table(("buffer", "kind", "filled by", "offset", "bytes", "steps"), rows)] if rows else []))


def _seconds(seconds: dict[str, float]) -> Table:
    total = sum(seconds.values())
    rows = [(name, duration(taken), f"{taken / total:.0%}" if total else "") for name, taken in seconds.items()]
    return plain_table(("stage or pass", "time", "share"), [*rows, ("total", duration(total), "")])


def _dynamo(explanation: "Explanation") -> Iterable[RenderableType]:
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
    rows = []
    for kind, n in Counter(g.kind for g in explanation.guards).most_common(GUARDS):
        sources = [g.source for g in explanation.guards if g.kind == kind and g.source]
        rows.append((kind, str(n), ", ".join(sources[:3]) + (", ..." if len(sources) > 3 else "")))
    if rows:
        yield plain_table(("guard", "count", "on"), rows)


def cuda_graph(status: Status) -> str:
    """Describes whether the steps run as a CUDA graph, why not, the measured times, and what every replay copies."""
    chosen = {"recorded": "yes", "given up": "no", "off": "no"}.get(status.state, "chosen after some calls")
    parts = [f"CUDA graph: {chosen}{', ' if status.why else ''}{status.why}"]
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
