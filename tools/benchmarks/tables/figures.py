"""Judges the figures of a suite, and formats them: a line for each workload, tables for the terminal by rich, and Markdown."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from lamina.report.amounts import duration
from lamina.tools.benchmarks.workloads import Goal, Workload

CLOCKS = {
    "times": "",
    "busy": "by how long the device is busy",
    "wall": "as a caller sees it",
    "alone": "kernels alone",
    "cold": "compiling cold",
    "warm": "compiling again",
}
"""Maps a clock to the words for it. A workload's figures have times by clock and contestant."""
OURS = ("lamina", "lamina graphs", "lamina tuned", "lamina own")
NONE = "-"

Results = Mapping[str, Any]
"""The results of the workers, by workload; {"failed": text} for one that failed."""
Judged = tuple[str, bool]
"""A goal in words, and whether it was reached."""


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


def by_kind(results: Results) -> defaultdict[str, dict[str, Any]]:
    """Returns the figures by kind and workload, without workloads that failed."""
    kinds: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for name, f in results.items():
        if "failed" not in f:
            kinds[f["kind"]][name] = f
    return kinds


def goals(results: Results, workloads: Mapping[str, Workload]) -> list[Judged]:
    """Returns every goal and whether it was reached: of a workload that failed, that it runs.

    Goals of a clock that was not read are left out.
    """
    judged: list[Judged] = []
    for name, f in results.items():
        reached = [("runs", False)] if "failed" in f else [_judge(f, goal) for goal in workloads[name].goals if goal.clock in f]
        judged += [(f"{name}: {text}", met) for text, met in reached]
    return judged


def _judge(f: Results, goal: Goal) -> Judged:
    times = dict(f[goal.clock])
    if "roofs" in f:
        times["copy bandwidth"] = f["work"]["bytes"] / f["roofs"]["bandwidth"]
    lamina = fastest(times, goal.mine)
    there = [name for name in goal.others if name in times]
    rivals = (
        f" of the best of {', '.join(there or goal.others)}"
        if len(goal.others) > 1
        else f" of {goal.others[0]}"
        if goal.others
        else ""
    )
    bound = f"{goal.part:.2f}" if goal.others else duration(goal.part)
    who = "" if goal.mine[0] == "lamina" else f"{goal.mine[0]} "
    how = [text for text in ("by speed" * goal.speed, CLOCKS[goal.clock]) if text]
    text = ", ".join([f"{who}at {'least' if goal.speed else 'most'} {bound}{rivals}", *how])
    rival = fastest(times, goal.others) if goal.others else 1.0
    if lamina is None or rival is None:
        return f"{text} (not measured)", False
    part = rival / lamina if goal.speed else lamina / rival
    if f["kind"] == "op" and "copy bandwidth" not in goal.others:  # where the library's kernel is chosen, both run the same one
        part = round(part, 2)
    shown = f"{part:.2f}" if goal.others else duration(part)
    return f"{text} (is {shown})", part >= goal.part if goal.speed else part <= goal.part


def fastest(times: Mapping[str, float], names: Iterable[str]) -> float | None:
    """Returns the least time of these contestants; None if none ran."""
    return min((times[name] for name in names if name in times), default=None)


def floor(f: Results) -> float:
    """Returns the hardware's least seconds.

    They are bytes over the copy's bandwidth or, if measured and more, operations over cuBLAS's rate.
    """
    roofs, work = f["roofs"], f["work"]
    matrix = work["flops"] / roofs["flops"] if "flops" in roofs else 0.0
    return float(max(work["bytes"] / roofs["bandwidth"], matrix))


def row(name: str, f: Results, workloads: Mapping[str, Workload]) -> str:
    """Formats the figures of one workload in a line, with the goals that it misses."""
    if "failed" in f:
        return f"{name}: failed: {f['failed']}"
    parts = []
    for clock in (clock for clock in CLOCKS if f.get(clock)):
        times = ", ".join(f"{who} {duration(seconds)}" for who, seconds in f[clock].items())
        parts.append(f"{CLOCKS[clock]}: {times}" if CLOCKS[clock] else times)
    if "roofs" in f:
        parts.append(f"floor {duration(floor(f))}")
    if "made" in f:
        parts.append(f"made {launch_count(f)}")
    if "choices" in f:
        parts.append(f"chosen {chosen(f)}")
    if "errors" in f:
        parts.append(f"error {largest_error(f, *OURS)} (eager {largest_error(f, 'eager')})")
    missed = [text.removeprefix(f"{name}: ") for text, met in goals({name: f}, workloads) if not met]
    return f"{name}: {'; '.join([*parts, *missed, *(f'{key}: {why}' for key, why in f.get('notes', {}).items())])}"


def call_table(title: str, results: Results) -> Figures:
    """Returns the table of call overheads, in microseconds."""
    names = {
        "eager": "eager",
        "lamina.compile": "lamina.compile",
        "null": "torch.compile, null compiler",
        "lamina": "torch.compile, Lamina",
        "torch.compile": "torch.compile, Inductor",
    }
    rows = [[text, number(f["times"].get(key), 1e6, 1)] for f in results.values() for key, text in names.items()]
    return Figures(title, ("through", "us"), rows)


def not_run(results: Results) -> Figures:
    """Returns the table of what did not run, with the reasons."""
    rows = [(name, "all", f["failed"]) for name, f in results.items() if "failed" in f]
    rows += [(name, key, why) for name, f in results.items() for key, why in f.get("notes", {}).items()]
    rows += [(name, "explain", f["made"]["failed"]) for name, f in results.items() if "failed" in f.get("made", {})]
    return Figures("What did not run", ("workload", "contestant", "why"), rows)


def goal_table(judged: Sequence[Judged]) -> Figures:
    """Returns the table of goals."""
    return Figures("Goals", ("goal", ""), [(text, "reached" if met else "missed") for text, met in judged])


def launch_count(f: Results) -> str:
    """Formats how many kernels and calls Lamina makes of a workload; NONE if that is not known."""
    made = f.get("made", {})
    if "kernels" not in made:
        return NONE
    fallbacks = f" + {made['fallbacks']} fallbacks ({', '.join(made['fallback_ops'])})" if made["fallbacks"] else ""
    return f"{made['kernels']} + {made['calls']}{fallbacks}"


def chosen(f: Results) -> str:
    """Names the candidates that tuning chose; NONE if it was asked nothing."""
    return ", ".join(asked["chosen"] for asked in f["choices"]) or NONE


def largest_error(f: Results, *names: str) -> str:
    """Returns the largest error of these contestants as text; NONE if none ran."""
    errors = [f["errors"][name] for name in names if name in f["errors"]]
    return f"{max(errors):.1e}" if errors else NONE


def number(seconds: float | None, scale: float, digits: int) -> str:
    """Formats seconds, multiplied by `scale`; NONE if there are none."""
    return NONE if seconds is None else f"{seconds * scale:.{digits}f}"


def numbers(times: Mapping[str, float], names: Iterable[str], scale: float, digits: int) -> list[str]:
    """Formats the times of these contestants."""
    return [number(times.get(name), scale, digits) for name in names]


def ratio(one: float | None, other: float | None) -> str:
    """Formats the ratio of two times; NONE if one is missing."""
    return NONE if one is None or other is None else f"{one / other:.2f}"


def show(figures: Sequence[Figures], console: Console) -> None:
    """Prints the tables to the console, without those that have no rows."""
    for figure in figures:
        if figure.rows:
            table = Table(title=figure.title, title_justify="left")
            for i, column in enumerate(figure.columns):
                table.add_column(column, justify="right" if i else "left")
            for cells in figure.rows:
                table.add_row(*cells)
            console.print(table)


def markdown(figures: Sequence[Figures], machine: str, command: str = "make bench") -> str:
    """Formats the tables that have rows as a page of Markdown that names the command and the machine."""
    parts = ["# Figures", "", f"Made by `{command}` on {machine}. [How](measuring.md).", ""]
    for figure in figures:
        if figure.rows:
            parts += [f"## {figure.title}", "", markdown_table(figure.columns, figure.rows)]
    return "\n".join(parts)


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[object]], left: Collection[str] = ()) -> str:
    """Formats a table in Markdown; all columns but the first and those named in `left` are aligned to the right."""
    rule = ["---:" if i and column not in left else "---" for i, column in enumerate(columns)]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in (columns, rule, *rows))
