"""Measures Lamina against eager and torch.compile: `make bench`, or `python tools/bench.py [--only NAME] [--quick] [--store]`.

Every workload runs in a process of its own with empty caches, then in a second one that finds them filled. Prints tables and what
goals were missed; keeps the figures as JSON and Markdown in build/bench, with --store in docs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from lamina.core.device import host
from lamina.tools import figures
from lamina.tools.bench_workloads import CALL, WORKLOADS

ROOT = Path(__file__).resolve().parents[1]
LIMIT_SECONDS = 1200  # for one workload, where torch.compile is slow


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures Lamina against eager and torch.compile.")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="workloads whose names contain this; may repeat"
    )
    parser.add_argument("--quick", action="store_true", help="few repetitions, no second process")
    parser.add_argument("--store", action="store_true", help="write docs/figures.json and docs/figures.md")
    arguments = parser.parse_args()
    names = [n for n in (*WORKLOADS, CALL) if not arguments.only or any(o.lower() in n.lower() for o in arguments.only)]
    if not names:
        parser.error(f"no workload matches; there are {', '.join((*WORKLOADS, CALL))}")
    console = Console() if sys.stdout.isatty() else Console(width=150)
    found = {}
    for name in names:
        console.print(f"measuring {name} ...", highlight=False)
        found[name] = measure(name, quick=arguments.quick)
    made = figures.tables(found)
    figures.show(made, console)
    missed = [goal for goal, reached in figures.goals(found) if not reached]
    console.print(
        f"{len(figures.goals(found)) - len(missed)} goals reached, {len(missed)} missed", *missed, sep="\n  ", highlight=False
    )
    files = store(ROOT / ("docs" if arguments.store else "build/bench"), found)
    console.print(f"written: {files[0]}, {files[1]}", highlight=False, soft_wrap=True)
    return 1 if any("failed" in f for f in found.values()) else 0


def measure(name: str, *, quick: bool) -> dict[str, Any]:
    """The figures of a workload; its second process's under "warm"."""
    with tempfile.TemporaryDirectory(prefix="lamina-bench-") as caches:
        found = run(name, caches, "--budget", "1" if quick else "12")
        if "failed" not in found and name != CALL and not quick:
            again = run(name, caches, "--compile-only")
            if "failed" in again:
                return again
            found["warm"] = again["compile"]
        return found


def run(name: str, caches: str, *arguments: str) -> dict[str, Any]:
    folders = {"LAMINA_CACHE_DIR": f"{caches}/lamina", "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor"}
    command = [sys.executable, "-m", "lamina.tools.bench_worker", name, *arguments]
    try:
        done = subprocess.run(command, env={**os.environ, **folders}, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        return {"failed": f"took more than {LIMIT_SECONDS} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def store(folder: Path, found: dict[str, Any]) -> tuple[Path, Path]:
    """Writes the figures, with those of other workloads that this machine has stored before."""
    folder.mkdir(parents=True, exist_ok=True)
    data, page = folder / "figures.json", folder / "figures.md"
    if data.exists() and (before := json.loads(data.read_text()))["machine"] == machine():
        found = {**before["workloads"], **found}
    ordered = {name: found[name] for name in (*WORKLOADS, CALL) if name in found}
    data.write_text(json.dumps({"machine": machine(), "workloads": ordered}, indent=1) + "\n")
    page.write_text(figures.markdown(figures.tables(ordered), machine()))
    return data, page


def machine() -> str:
    device = host()
    return f"{device.processor} ({device.simd_bits}-bit vectors, {torch.get_num_threads()} threads), torch {torch.__version__}"


if __name__ == "__main__":
    sys.exit(main())
