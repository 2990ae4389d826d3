"""Finds graphs on which Lamina is slower than its peers: `make cliffs`, or `python tools/cliffs.py --help`.

python tools/cliffs.py run --graphs 150 --seed 7           # resumes where an earlier run of this seed ended
python tools/cliffs.py again --seed 7 --above 1.05         # measures slow graphs three times more, in processes of their own
python tools/cliffs.py shrink --seed 7 --worst 10          # reduces the worst ones
python tools/cliffs.py kernels --seed 7 --device cuda      # lists the GPU kernels of each contender for the slow ones
python tools/cliffs.py compile --seed 7 --what models      # times cold compiles from AOTAutograd's graph on
python tools/cliffs.py regret --seed 7 --device cuda       # measures what tuning would choose between, to judge the cost models
python tools/cliffs.py show --seed 7                       # tables; --source SEED prints a module
python tools/cliffs.py note --seed 7 "7 12" "layout of f32 convolutions"
"""

import argparse
import math
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lamina.tools.cliff_finder.classes import classes
from lamina.tools.cliff_finder.findings import Finding, append, by_operation, compile_table, load, markdown, memory, summary
from lamina.tools.cliff_finder.graph import DrawnGraph
from lamina.tools.cliff_finder.models import models
from lamina.tools.cliff_finder.pool import Worker, answers
from lamina.tools.cliff_finder.regret import regret_table
from lamina.tools.cliff_finder.shrink import shrink

ROOT = Path(__file__).resolve().parents[1]
_LISTS = {"classes": classes, "models": models}


def main() -> int:
    """Parses the command line, runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--seed", type=int, help="of the run (default: a new one, printed)")
    shared.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where (default: cpu)")
    shared.add_argument(
        "--what",
        choices=("graphs", "blocks", "classes", "models"),
        default="graphs",
        help="drawn graphs, shallow models, a graph of each class, or whole models",
    )
    shared.add_argument("--folder", type=Path, default=ROOT / "build/cliffs", help="where findings are kept (default: %(default)s)")
    shared.add_argument("--jobs", type=int, default=2, help="graphs compiled at the same time (default: 2)")
    shared.add_argument("--seconds", type=float, default=1.0, help="of measured calls for each graph (default: 1)")
    commands = parser.add_subparsers(dest="command", required=True)
    graphs, above = (argparse.ArgumentParser(add_help=False) for _ in range(2))
    graphs.add_argument("--graphs", type=int, default=150, help="how many (default: 150)")
    above.add_argument("--above", type=float, default=1.05, help="a graph is slow from this ratio on (default: 1.05)")
    commands.add_parser("run", parents=[shared, graphs], help="measure graphs that were not measured before")
    commands.add_parser("compile", parents=[shared, graphs], help="time cold compiles")
    commands.add_parser("regret", parents=[shared, graphs], help="judge the GPU's cost models by measuring all candidates")
    again = commands.add_parser("again", parents=[shared, above], help="measure slow ones again")
    again.add_argument("--times", type=int, default=3, help="how often (default: 3)")
    less = commands.add_parser("shrink", parents=[shared], help="reduce the worst graphs")
    less.add_argument("--worst", type=int, default=10, help="how many (default: 10)")
    less.add_argument("--above", type=float, default=1.1, help="a graph is slow above this ratio (default: 1.1)")
    commands.add_parser("kernels", parents=[shared, above], help="list the GPU kernels of slow graphs")
    show = commands.add_parser("show", parents=[shared], help="print tables")
    show.add_argument("--source", metavar="GRAPH", help="print the module of this graph instead")
    note = commands.add_parser("note", parents=[shared], help="say what was done about a graph")
    note.add_argument("graph", help="its seed")
    note.add_argument("text", help="what was done")
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = random.SystemRandom().randrange(1 << 16)
    if arguments.command == "regret" and arguments.device != "cuda":
        parser.error("tuning chooses on GPUs alone: give regret --device cuda")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    found = load(_file(arguments))
    measure = {"run": _run, "compile": _compile, "regret": _regret, "again": _again, "shrink": _shrink, "kernels": _kernels}
    return {**measure, "show": _show, "note": _note}[arguments.command](arguments, found, Console())


def _file(arguments: argparse.Namespace) -> Path:
    folder: Path = arguments.folder
    return folder / f"{arguments.device}-{arguments.what}-{arguments.seed}.jsonl"


def _questions(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    shared: dict[str, Any] = {"device": arguments.device}
    if arguments.what in _LISTS:
        listed = _LISTS[arguments.what](arguments.device)
        return [{"seed": name, "graph": graph.to_json(), **shared} for name, graph in listed.items()]
    shared["blocks"] = arguments.what == "blocks"
    return [{"seed": f"{arguments.seed} {i}", **shared} for i in range(arguments.graphs)]


def _run(arguments: argparse.Namespace, found: dict[str, Finding], console: Console) -> int:
    measured = {seed for seed, f in found.items() if f.seconds or f.failed}
    for seed, answer in _asked(arguments, [q for q in _questions(arguments) if q["seed"] not in measured], console):
        append(_file(arguments), replace(found.get(seed, Finding(seed)), **answer))
    return _show(arguments, load(_file(arguments)), console)


def _compile(arguments: argparse.Namespace, found: dict[str, Finding], console: Console) -> int:
    return _ask_apart(arguments, "compile", "graph_seconds", compile_table, found, console)


def _regret(arguments: argparse.Namespace, found: dict[str, Finding], console: Console) -> int:
    return _ask_apart(arguments, "choices", "choices", regret_table, found, console)


def _ask_apart(
    arguments: argparse.Namespace, what: str, answered: str, table: Any, found: dict[str, Finding], console: Console
) -> int:
    """Asks for `what` of each graph of the run that has none yet; stores the answer in the finding's field `answered`."""
    known = {seed for seed, f in found.items() if getattr(f, answered) not in (None, {})}
    questions = [{**question, what: True} for question in _questions(arguments) if question["seed"] not in known]
    for seed, answer in _asked(arguments, questions, console):
        if "failed" in answer:
            console.print(f"{seed}: {answer['failed']}", highlight=False, markup=False, soft_wrap=True)
        else:
            finding = found.setdefault(seed, Finding(seed, answer["text"], answer["graph"]))
            setattr(finding, answered, answer[answered])
            append(_file(arguments), finding)
    console.print(table(list(found.values())), highlight=False, markup=False, soft_wrap=True)
    return 0


def _again(arguments: argparse.Namespace, found: dict[str, Finding], console: Console) -> int:
    slow = _slow(found, arguments.above)
    questions = [{"seed": f.seed, "graph": f.graph, "device": arguments.device} for f in slow for _ in range(arguments.times)]
    for seed, answer in _asked(arguments, questions, console):
        if "failed" not in answer:
            found[seed].again.append(Finding(seed, **answer).first)
            append(_file(arguments), found[seed])
    return _show(arguments, found, console)


def _asked(
    arguments: argparse.Namespace, questions: Sequence[dict[str, Any]], console: Console
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the graph's seed and the answer of each question, and shows how many there are."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(f"seed {arguments.seed}", total=len(questions))
        for question, answer in answers(questions, arguments.jobs, arguments.folder, arguments.seconds):
            yield question["seed"], answer
            progress.advance(task)


def _shrink(arguments: argparse.Namespace, found: dict[str, Finding], console: Console) -> int:
    worker = Worker(arguments.folder / "lock", arguments.seconds, arguments.folder / "workers.log")
    for f in [f for f in _slow(found, arguments.above) if not f.smaller][: arguments.worst]:

        def is_slow(graph: DrawnGraph, seed: str = f.seed) -> bool:
            answer = worker.ask({"seed": seed, "graph": graph.to_json(), "device": arguments.device})
            return "failed" not in answer and arguments.above < Finding(seed, **answer).first < math.inf

        least = shrink(DrawnGraph.from_json(f.graph), is_slow)
        f.smaller = {"graph": least.to_json(), "text": str(least)}
        append(_file(arguments), f)
        console.print(f"{f.seed}: {f.ratio:.2f} {least}", highlight=False, markup=False, soft_wrap=True)
    worker.close()
    return 0


def _kernels(arguments: argparse.Namespace, found: dict[str, Finding], console: Console) -> int:
    slow = _slow(found, arguments.above)
    questions = [{"seed": f.seed, "graph": f.graph, "device": "cuda", "kernels": True} for f in slow]

    for seed, answer in _asked(arguments, questions, console):
        if "failed" not in answer:
            found[seed].kernels = answer["kernels"]
            append(_file(arguments), found[seed])
    for f in slow:
        console.print(f"\n{f.seed}: {f.ratio:.2f} {f.text}", highlight=False, markup=False, soft_wrap=True)
        for contender, kernels in f.kernels.items():
            total = sum(us for _, _, us in kernels)
            console.print(f"  {contender}: call {f.seconds.get(contender, math.nan) * 1e6:.0f} us, kernels {total:.0f} us")
            for name, count, us in kernels[:12]:
                console.print(f"    {us:9.1f} us {count:5.1f} x {name[:110]}", highlight=False, markup=False, soft_wrap=True)
    return 0


def _slow(found: dict[str, Finding], above: float) -> list[Finding]:
    """Returns the findings with a ratio above `above`, the slowest first."""
    slow = [f for f in found.values() if not f.failed and math.isfinite(f.ratio) and f.ratio > above]
    return sorted(slow, key=lambda f: -f.ratio)


def _show(arguments: argparse.Namespace, found: dict[str, Finding], console: Console) -> int:
    source = getattr(arguments, "source", None)
    if source:
        console.print(DrawnGraph.from_json(found[source].graph).source, highlight=False, markup=False, soft_wrap=True)
        return 0
    findings = list(found.values())
    console.print(markdown(findings), highlight=False, markup=False, soft_wrap=True)
    if getattr(arguments, "what", "") == "models":
        console.print(memory(findings), highlight=False, markup=False, soft_wrap=True)
    for name, count, mean, worst in by_operation(findings)[:12]:
        console.print(f"{mean:6.2f} {worst:6.2f} {count:4d}  {name}", highlight=False, markup=False)
    for f in findings:
        if f.fault:
            console.print(f"{f.seed}: {f.fault} in {f.text}", highlight=False, markup=False, soft_wrap=True)
    numbers = summary(findings)
    return 1 if numbers["failed or wrong"] else 0


def _note(arguments: argparse.Namespace, found: dict[str, Finding], console: Console) -> int:
    append(_file(arguments), replace(found[arguments.graph], note=arguments.text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
