"""Formats the figures of `make bench` as tables: for the terminal by rich, for docs/figures.md in Markdown."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

COLD, WARM_SECONDS, BANDWIDTH = 0.25, 0.1, 0.8
AHEAD_SECONDS, ABOVE_NULL_SECONDS = 8e-6, 3e-6

Found = Mapping[str, Any]
Goal = tuple[str, bool]
"""What is to be reached, and whether it was."""


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


def tables(found: Found) -> list[Figures]:
    """Returns the tables of `found`: what the workers said, by workload; {"failed": text} for one that failed."""
    kinds = by_kind(found)
    kernels, models, calls = ({n: f for n, f in kinds[kind].items() if "call" in f} for kind in ("kernel", "model", "call"))
    made = [
        _kernels(kernels),
        _models(models),
        _compile({n: f for n, f in found.items() if n in kinds["kernel"] | kinds["model"]}),
        call_table("A call on 64 elements", calls),
        Figures("Failed", ("workload", "why"), [(n, f["failed"]) for n, f in found.items() if "failed" in f]),
    ]
    return [table for table in made if table.rows]


def by_kind(found: Found) -> defaultdict[str, dict[str, Any]]:
    """Returns the figures by kind and workload, without workloads that failed."""
    kinds: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for name, f in found.items():
        if "failed" not in f:
            kinds[f["kind"]][name] = f
    return kinds


def all_goals(found: Found, goals_of: Callable[[Found], list[Goal]]) -> list[Goal]:
    """Returns every goal and whether it was reached: of a workload that failed, that it runs; else those that `goals_of` returns.

    Goals of calls say themselves what they are of; others get the workload's name.
    """
    reached: list[Goal] = []
    for name, f in found.items():
        made = [("runs", False)] if "failed" in f else goals_of(f)
        reached += made if f.get("kind") == "call" else [(f"{name}: {text}", met) for text, met in made]
    return reached


def goals(found: Found) -> list[Goal]:
    """Returns every goal and whether it was reached."""
    return all_goals(found, _goals)


def _goals(f: Found) -> list[Goal]:
    reached = []
    call = f.get("call", {})
    if f["kind"] == "call":
        ahead, above = call["lamina.compile"] <= AHEAD_SECONDS, call["lamina"] - call["null"] <= ABOVE_NULL_SECONDS
        return [("lamina.compile: at most 8 us a call", ahead), ("torch.compile: at most 3 us above null", above)]
    if call:
        for rival in ("torch.compile", "eager")[: 1 + (f["kind"] == "model")]:
            reached.append((f"at most {f['ratio']} of {rival}", call["lamina"] <= f["ratio"] * call[rival]))
    if "kernel" in f:
        reached.append((f"at least {BANDWIDTH:.0%} of copy bandwidth", bandwidth(f["kernel"]) >= BANDWIDTH))
    cold = f["compile"]["lamina"]["graph_to_result"], f["compile"]["torch.compile"]["graph_to_result"]
    reached.append((f"cold at most {COLD} of torch.compile", cold[0] <= COLD * cold[1]))
    if "warm" in f:
        reached.append((f"warm at most {WARM_SECONDS} s", f["warm"]["lamina"]["graph_to_result"] <= WARM_SECONDS))
    return reached


def row(name: str, f: Found) -> str:
    """Formats a line on one workload, which says whether it failed."""
    return f"{name}: failed: {f['failed']}" if "failed" in f else f"measured {name}"


def bandwidth(kernel: Mapping[str, float]) -> float:
    """Returns a kernel's bytes in and out per second, over those of a copy."""
    return kernel["bytes"] / kernel["seconds"] / (kernel["copy_bytes"] / kernel["copy_seconds"])


def _kernels(found: Mapping[str, Any]) -> Figures:
    rows = []
    for name, f in found.items():
        share = f"{bandwidth(f['kernel']):.0%}" if "kernel" in f else ""
        rows.append([name, *_times(f["call"]), share, f"{f['errors']['lamina']:.0e}"])
    return Figures("Kernels, f32", ("kernel", *_TIMES, "of copy bandwidth", "difference"), rows)


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


def call_table(title: str, found: Found) -> Figures:
    """Returns the table of call overheads, in microseconds."""
    names = {
        "eager": "eager",
        "lamina.compile": "lamina.compile",
        "null": "torch.compile, null compiler",
        "lamina": "torch.compile, Lamina",
        "torch.compile": "torch.compile, Inductor",
    }
    rows = [[text, f"{f['call'][key] * 1e6:.1f}"] for f in found.values() for key, text in names.items()]
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
        parts += [f"## {figure.title}", "", markdown_table(figure.columns, figure.rows)]
    return "\n".join(parts)


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[object]], left: Collection[str] = ()) -> str:
    """Formats a table in Markdown; all columns but the first and those named in `left` are aligned to the right."""
    rule = ["---:" if i and column not in left else "---" for i, column in enumerate(columns)]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in (columns, rule, *rows))
