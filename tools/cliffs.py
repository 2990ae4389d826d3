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
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lamina.tools.cliff_finder.classes import classes
from lamina.tools.cliff_finder.findings import Finding, append, by_operation, compile_table, load, markdown, memory, summary
from lamina.tools.cliff_finder.graph import DrawnGraph
from lamina.tools.cliff_finder.models import models
from lamina.tools.cliff_finder.pool import PATIENCE, answers, worker
from lamina.tools.cliff_finder.regret import regret_table
from lamina.tools.cliff_finder.shrink import shrink

ROOT = Path(__file__).resolve().parents[1]
_LISTS = {"classes": classes, "models": models}

Findings = dict[str, Finding]
Question = dict[str, Any]


def main() -> int:
    """Parses the command line, runs the command and returns its exit status."""
    shared, graphs, above = (argparse.ArgumentParser(add_help=False) for _ in range(3))
    shared.add_argument("--seed", type=int, help="of the run (default: a new one, printed)")
    shared.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where (default: cpu)")
    what = "drawn graphs, shallow models, a graph of each class, or whole models"
    shared.add_argument("--what", choices=("graphs", "blocks", "classes", "models"), default="graphs", help=what)
    shared.add_argument("--folder", type=Path, default=ROOT / "build/cliffs", help="where findings are kept (default: %(default)s)")
    shared.add_argument("--jobs", type=int, default=2, help="graphs compiled at the same time (default: 2)")
    shared.add_argument("--seconds", type=float, default=1.0, help="of measured calls for each graph (default: 1)")
    graphs.add_argument("--graphs", type=int, default=150, help="how many (default: 150)")
    above.add_argument("--above", type=float, default=1.05, help="a graph is slow from this ratio on (default: 1.05)")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)

    def command(name: str, work: Any, about: str, *options: argparse.ArgumentParser) -> argparse.ArgumentParser:
        """Adds a subcommand."""
        made = commands.add_parser(name, parents=[shared, *options], help=about)
        made.set_defaults(work=work)
        return made

    command("run", _run, "measure graphs that were not measured before", graphs)
    command("compile", _compile, "time cold compiles", graphs)
    command("regret", _regret, "judge the GPU's cost models by measuring all candidates", graphs)
    again = command("again", _repeat, "measure slow ones again", above)
    again.add_argument("--times", type=int, default=3, help="how often (default: 3)")
    less = command("shrink", _shrink, "reduce the worst graphs")
    less.add_argument("--worst", type=int, default=10, help="how many (default: 10)")
    less.add_argument("--above", type=float, default=1.1, help="a graph is slow above this ratio (default: 1.1)")
    command("kernels", _kernels, "list the GPU kernels of slow graphs", above)
    show = command("show", _show, "print tables")
    show.add_argument("--source", metavar="GRAPH", help="print the module of this graph instead")
    note = command("note", _note, "say what was done about a graph")
    note.add_argument("graph", help="its seed")
    note.add_argument("text", help="what was done")
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = random.SystemRandom().randrange(1 << 16)
    if arguments.work is _regret and arguments.device != "cuda":
        parser.error("tuning chooses on GPUs alone: give regret --device cuda")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    work: Callable[[argparse.Namespace, Findings, Console], int] = arguments.work
    return work(arguments, load(_file(arguments)), Console(markup=False, highlight=False, soft_wrap=True))


def _file(arguments: argparse.Namespace) -> Path:
    folder: Path = arguments.folder
    return folder / f"{arguments.device}-{arguments.what}-{arguments.seed}.jsonl"


def _question(arguments: argparse.Namespace, seed: str, **more: Any) -> Question:
    shared = {"device": arguments.device, "lock": str(arguments.folder / "lock"), "seconds": arguments.seconds}
    return {"seed": seed, **shared, **more}


def _questions(arguments: argparse.Namespace, **more: Any) -> list[Question]:
    if arguments.what in _LISTS:
        listed = _LISTS[arguments.what](arguments.device)
        return [_question(arguments, name, graph=graph.to_json(), **more) for name, graph in listed.items()]
    blocks = arguments.what == "blocks"
    return [_question(arguments, f"{arguments.seed} {i}", blocks=blocks, **more) for i in range(arguments.graphs)]


def _ask(
    arguments: argparse.Namespace,
    findings: Findings,
    console: Console,
    questions: Sequence[Question],
    merged: Callable[[Finding, dict[str, Any]], Finding] = lambda finding, answer: replace(finding, **answer),
) -> None:
    """Asks questions with a bar, and stores each finding that `merged` makes of the known one and an answer.

    Graphs that cannot be measured are findings of `run` alone; else the reason is printed.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(f"seed {arguments.seed}", total=len(questions))
        for question, answer in answers(questions, arguments.jobs, arguments.folder):
            progress.advance(task)
            seed = question["seed"]
            if "failed" in answer and arguments.work is not _run:
                console.print(f"{seed}: {answer['failed']}")
            else:
                findings[seed] = merged(findings.get(seed, Finding(seed)), answer)
                append(_file(arguments), findings[seed])


def _run(arguments: argparse.Namespace, findings: Findings, console: Console) -> int:
    measured = {seed for seed, f in findings.items() if f.seconds or f.failed}
    _ask(arguments, findings, console, [q for q in _questions(arguments) if q["seed"] not in measured])
    return _show(arguments, findings, console)


def _compile(arguments: argparse.Namespace, findings: Findings, console: Console) -> int:
    known = {seed for seed, f in findings.items() if f.graph_seconds}
    _ask(arguments, findings, console, [q for q in _questions(arguments, compile=True) if q["seed"] not in known])
    console.print(compile_table(list(findings.values())))
    return 0


def _regret(arguments: argparse.Namespace, findings: Findings, console: Console) -> int:
    known = {seed for seed, f in findings.items() if f.choices is not None}
    _ask(arguments, findings, console, [q for q in _questions(arguments, choices=True) if q["seed"] not in known])
    console.print(regret_table(list(findings.values())))
    return 0


def _repeat(arguments: argparse.Namespace, findings: Findings, console: Console) -> int:
    slow = [_question(arguments, f.seed, graph=f.graph) for f in _slow(findings, arguments.above) for _ in range(arguments.times)]
    _ask(arguments, findings, console, slow, lambda f, answer: replace(f, again=[*f.again, Finding(f.seed, **answer).first]))
    return _show(arguments, findings, console)


def _shrink(arguments: argparse.Namespace, findings: Findings, console: Console) -> int:
    with worker(arguments.folder) as one:
        for f in [f for f in _slow(findings, arguments.above) if not f.smaller][: arguments.worst]:

            def is_slow(graph: DrawnGraph, seed: str = f.seed) -> bool:
                """Returns whether a smaller graph is still slow."""
                answer = one.ask(_question(arguments, seed, graph=graph.to_json()), PATIENCE)
                return "failed" not in answer and arguments.above < Finding(seed, **answer).first < math.inf

            least = shrink(DrawnGraph.from_json(f.graph), is_slow)
            f.smaller = {"graph": least.to_json(), "text": str(least)}
            append(_file(arguments), f)
            console.print(f"{f.seed}: {f.ratio:.2f} {least}")
    return 0


def _kernels(arguments: argparse.Namespace, findings: Findings, console: Console) -> int:
    slow = _slow(findings, arguments.above)
    questions = [_question(arguments, f.seed, graph=f.graph, kernels=True) for f in slow]
    _ask(arguments, findings, console, questions, lambda f, answer: replace(f, kernels=answer["kernels"]))
    for f in (findings[f.seed] for f in slow):
        console.print(f"\n{f.seed}: {f.ratio:.2f} {f.text}")
        for contender, kernels in f.kernels.items():
            total = sum(us for _, _, us in kernels)
            console.print(f"  {contender}: call {f.seconds.get(contender, math.nan) * 1e6:.0f} us, kernels {total:.0f} us")
            for name, count, us in kernels[:12]:
                console.print(f"    {us:9.1f} us {count:5.1f} x {name[:110]}")
    return 0


def _slow(findings: Findings, above: float) -> list[Finding]:
    """Returns the findings with a ratio above `above`, the slowest first."""
    slow = [f for f in findings.values() if not f.failed and math.isfinite(f.ratio) and f.ratio > above]
    return sorted(slow, key=lambda f: -f.ratio)


def _show(arguments: argparse.Namespace, findings: Findings, console: Console) -> int:
    if source := getattr(arguments, "source", None):
        console.print(DrawnGraph.from_json(findings[source].graph).source)
        return 0
    all_findings = list(findings.values())
    console.print(markdown(all_findings))
    if arguments.what == "models":
        console.print(memory(all_findings))
    for name, count, mean, worst in by_operation(all_findings)[:12]:
        console.print(f"{mean:6.2f} {worst:6.2f} {count:4d}  {name}")
    for f in all_findings:
        if f.fault:
            console.print(f"{f.seed}: {f.fault} in {f.text}")
    return 1 if summary(all_findings)["failed or wrong"] else 0


def _note(arguments: argparse.Namespace, findings: Findings, console: Console) -> int:
    append(_file(arguments), replace(findings[arguments.graph], note=arguments.text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
