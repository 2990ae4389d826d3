"""Formats the figures of `make bench` as tables: for the terminal by rich, for docs/figures.md in Markdown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

COLD, WARM_SECONDS, BANDWIDTH = 0.25, 0.1, 0.8
AHEAD_SECONDS, ABOVE_NULL_SECONDS = 8e-6, 3e-6


@dataclass(frozen=True)
class Figures:
    """A table of text.

    title    its title
    columns  the names of its columns
    rows     the cells of each row
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def tables(found: Mapping[str, Any]) -> list[Figures]:
    """Returns the tables of `found`: what the workers printed, by workload; {"failed": text} for one that failed."""
    measured = {name: f for name, f in found.items() if "failed" not in f}
    made = [
        _kernels({n: f for n, f in measured.items() if f["kind"] == "kernel" and "call" in f}),
        _models({n: f for n, f in measured.items() if f["kind"] == "model" and "call" in f}),
        _compile({n: f for n, f in measured.items() if f["kind"] != "call"}),
        call_table("A call on 64 elements", [f["call"] for f in measured.values() if f["kind"] == "call"]),
        Figures("Failed", ("workload", "why"), [(n, f["failed"]) for n, f in found.items() if "failed" in f]),
    ]
    return [table for table in made if table.rows]


def goals(found: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """Returns every goal and whether it was reached."""
    reached: list[tuple[str, bool]] = []
    for name, f in found.items():
        if "failed" in f:
            reached.append((f"{name}: runs", False))
        elif f["kind"] == "call":
            call = f["call"]
            reached.append(("lamina.compile: at most 8 us a call", call["lamina.compile"] <= AHEAD_SECONDS))
            reached.append(("torch.compile: at most 3 us above null", call["lamina"] - call["null"] <= ABOVE_NULL_SECONDS))
        else:
            reached += _goals(name, f)
    return reached


def _goals(name: str, f: Mapping[str, Any]) -> list[tuple[str, bool]]:
    reached = []
    if "call" in f:
        call, ratio = f["call"], f["ratio"]
        reached.append((f"{name}: at most {ratio} of torch.compile", call["lamina"] <= ratio * call["torch.compile"]))
        if f["kind"] == "model":
            reached.append((f"{name}: at most {ratio} of eager", call["lamina"] <= ratio * call["eager"]))
    if "kernel" in f:
        reached.append((f"{name}: at least {BANDWIDTH:.0%} of copy bandwidth", bandwidth(f["kernel"]) >= BANDWIDTH))
    cold = f["compile"]["lamina"]["graph_to_result"], f["compile"]["torch.compile"]["graph_to_result"]
    reached.append((f"{name}: cold at most {COLD} of torch.compile", cold[0] <= COLD * cold[1]))
    if "warm" in f:
        reached.append((f"{name}: warm at most {WARM_SECONDS} s", f["warm"]["lamina"]["graph_to_result"] <= WARM_SECONDS))
    return reached


def bandwidth(kernel: Mapping[str, float]) -> float:
    """Returns a kernel's bytes in and out per second, over those of a copy."""
    return kernel["bytes"] / kernel["seconds"] / (kernel["copy_bytes"] / kernel["copy_seconds"])


def _kernels(found: Mapping[str, Any]) -> Figures:
    rows = []
    for name, f in found.items():
        share = f"{bandwidth(f['kernel']):.0%}" if "kernel" in f else ""
        rows.append([name, *_times(f["call"]), share, f"{f['errors']['lamina']:.0e}"])
    columns = (
        "kernel",
        "eager ms",
        "torch.compile ms",
        "Lamina ms",
        "of torch.compile",
        "of eager",
        "of copy bandwidth",
        "difference",
    )
    return Figures("Kernels, f32", columns, rows)


def _models(found: Mapping[str, Any]) -> Figures:
    rows = [[name, *_times(f["call"]), f"{f['errors']['lamina']:.0e}"] for name, f in found.items()]
    return Figures("Models, f32", ("model", *_TIMES, "difference"), rows)


_TIMES = ("eager ms", "torch.compile ms", "Lamina ms", "of torch.compile", "of eager")


def _times(call: Mapping[str, float]) -> list[str]:
    ours = call["lamina"]
    each = [f"{call[name] * 1e3:.2f}" for name in ("eager", "torch.compile", "lamina")]
    return [*each, f"{ours / call['torch.compile']:.2f}", f"{ours / call['eager']:.2f}"]


def _compile(found: Mapping[str, Any]) -> Figures:
    rows = []
    for name, f in found.items():
        theirs, ours = (f["compile"][key] for key in ("torch.compile", "lamina"))
        cold, theirs_cold = ours["graph_to_result"], theirs["graph_to_result"]
        warm = [f"{f['warm'][key]['graph_to_result']:.3f}" for key in ("torch.compile", "lamina")] if "warm" in f else ["", ""]
        rows.append([name, f"{theirs_cold:.2f}", f"{cold:.2f}", f"{cold / theirs_cold:.2f}", *warm, f"{ours['tracing']:.2f}"])
    columns = ("workload", "cold: torch.compile", "Lamina", "ratio", "warm: torch.compile", "Lamina", "tracing")
    return Figures("Seconds from AOT graph to first result", columns, rows)


def call_table(title: str, calls: Sequence[Mapping[str, float]]) -> Figures:
    """Returns the table of call overheads, in microseconds."""
    names = {
        "eager": "eager",
        "lamina.compile": "lamina.compile",
        "null": "torch.compile, null compiler",
        "lamina": "torch.compile, Lamina",
        "torch.compile": "torch.compile, Inductor",
    }
    rows = [[text, f"{call[key] * 1e6:.1f}"] for call in calls for key, text in names.items()]
    return Figures(title, ("through", "us"), rows)


def show(figures: Sequence[Figures], console: Console) -> None:
    """Prints the tables to the console."""
    for figure in figures:
        table = Table(title=figure.title, title_justify="left")
        for i, column in enumerate(figure.columns):
            table.add_column(column, justify="right" if i else "left")
        for row in figure.rows:
            table.add_row(*row)
        console.print(table)


def markdown(figures: Sequence[Figures], machine: str, command: str = "make bench") -> str:
    """Formats the tables as a page of Markdown that names the command and the machine."""
    parts = ["# Figures", "", f"Made by `{command}` on {machine}. [How](measuring.md).", ""]
    for figure in figures:
        lines = [figure.columns, ["---", *["---:"] * (len(figure.columns) - 1)], *figure.rows]
        parts += [f"## {figure.title}", "", *(f"| {' | '.join(line)} |" for line in lines), ""]
    return "\n".join(parts)
