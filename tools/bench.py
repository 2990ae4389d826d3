"""Benchmarks Lamina: `make bench`, or `python tools/bench.py [--target nvvm [--suite hot]] [--only NAME] [--quick] [--store]`.

Every workload runs in a process of its own with empty caches; on the CPU, a second process then finds them filled. Prints tables
and missed goals; stores the figures as JSON and Markdown in build/bench, with --store in docs.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from lamina.tools.benchmarks.serve import Results
from lamina.tools.benchmarks.suites import SUITES, Suite, plot, store
from lamina.tools.benchmarks.tables import figures

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Runs the workloads, prints their figures and missed goals, and stores them. Returns 1 if a workload failed."""
    parser = argparse.ArgumentParser(description="Measures Lamina against eager, torch.compile and, on GPUs, XLA.")
    parser.add_argument("--target", choices=("cpu", "nvvm"), default="cpu", help="where (default: cpu)")
    parser.add_argument("--suite", choices=("whole", "hot"), default="whole", help="all, or on a GPU the ops that tuning is for")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="workloads whose names contain this; may repeat"
    )
    parser.add_argument("--quick", action="store_true", help="few repetitions, no second process")
    parser.add_argument("--store", action="store_true", help="write docs/figures*.json and .md")
    arguments = parser.parse_args()
    if arguments.suite == "hot" and arguments.target == "cpu":
        parser.error("--suite hot measures on a GPU: give --target nvvm")
    suite = SUITES["hot" if arguments.suite == "hot" else arguments.target]
    names = [n for n in suite.workloads if not arguments.only or any(o.lower() in n.lower() for o in arguments.only)]
    if not names:
        parser.error(f"no workload matches; there are {', '.join(suite.workloads)}")
    console = Console() if sys.stdout.isatty() else Console(width=220)
    folder = ROOT / ("docs" if arguments.store else "build/bench")
    found = measure(suite, names, arguments.quick, folder, console)
    figures.show(suite.tables(found), console)
    goals = figures.goals(found, suite.workloads)
    missed = [goal for goal, reached in goals if not reached]
    console.print(f"{len(goals) - len(missed)} goals reached, {len(missed)} missed", *missed, sep="\n  ", highlight=False)
    files = store(folder, found, suite)
    console.print(f"written: {files[0]}, {files[1]}", plot(folder, suite), sep="\n", highlight=False, soft_wrap=True)
    return 1 if any("failed" in f for f in found.values()) else 0


def measure(suite: Suite, names: list[str], quick: bool, folder: Path, console: Console) -> Results:
    """Returns the figures by workload; prints and stores each as it arrives."""
    results: Results = {}
    with tempfile.TemporaryDirectory(prefix="lamina-bench-") as caches:
        for name, f in suite.run(names, quick, caches):
            results[name] = f
            store(folder, results, suite)
            console.print(figures.row(name, f, suite.workloads), highlight=False, soft_wrap=True, markup=False)
    return results


if __name__ == "__main__":
    sys.exit(main())
