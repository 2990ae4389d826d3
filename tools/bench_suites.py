"""The two sets of workloads that bench.py measures, how their processes run, and where their figures are kept."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lamina.core.device import host
from lamina.tools import figures, figures_gpu
from lamina.tools.bench_gpu_workloads import GPU_CALL, GPU_WORKLOADS
from lamina.tools.bench_workloads import CALL, WORKLOADS
from lamina.tools.roofline_plot import draw

Found = dict[str, Any]
CPU_SECONDS, GPU_SECONDS = 1200, 150  # for one workload, where torch.compile is slow


@dataclass(frozen=True)
class Suite:
    """
    names    of the workloads, in their order
    run      the figures of each of some workloads as they are found: (names, quick, folder for caches)
    row      a line on one workload's figures
    machine  what the figures were measured on
    file     name of the stored files, without what comes after the dot
    command  that makes them
    plot     writes a picture beside them and says so
    """

    names: Sequence[str]
    run: Callable[[Sequence[str], bool, str], Iterator[tuple[str, Found]]]
    row: Callable[[str, Found], str]
    tables: Callable[[Mapping[str, Any]], list[figures.Figures]]
    goals: Callable[[Mapping[str, Any]], list[tuple[str, bool]]]
    machine: Callable[[Mapping[str, Any]], str]
    file: str
    command: str
    plot: Callable[[Mapping[str, Any], Path], str] | None = None


def start(module: str, name: str, folders: Mapping[str, str], *arguments: str) -> subprocess.Popen[str]:
    """A worker in its process. `folders`: environment variables."""
    command = [sys.executable, "-m", f"lamina.tools.{module}", name, *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env={**os.environ, **folders}, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def finish(process: "subprocess.Popen[str]", limit: float) -> Found:
    """What a worker prints, once it has been given a line; {"failed": text} where it fails."""
    try:
        printed, errors = process.communicate("\n", timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return {"failed": f"took more than {limit} s"}
    if process.returncode:
        return {"failed": (errors.strip().splitlines() or [f"exit status {process.returncode}"])[-1]}
    result: Found = json.loads(printed.splitlines()[-1])
    return result


def on_cpu(names: Sequence[str], quick: bool, caches: str) -> Iterator[tuple[str, Found]]:
    """With the figures of a second process under "warm"."""
    for name in names:
        folders = cache_folders(caches, name)
        found = finish(start("bench_worker", name, folders, "--budget", "1" if quick else "12"), CPU_SECONDS)
        if "failed" not in found and name != CALL and not quick:
            again = finish(start("bench_worker", name, folders, "--compile-only"), CPU_SECONDS)
            found = again if "failed" in again else {**found, "warm": again["compile"]}
        yield name, found


def on_gpu(names: Sequence[str], quick: bool, caches: str) -> Iterator[tuple[str, Found]]:
    """Each process is started, to import what it needs, when the one before it begins to measure."""
    if not torch.cuda.is_available():
        sys.exit("--target nvvm measures on an NVIDIA GPU, and torch finds none here")
    arguments = ("--wait", "--quick") if quick else ("--wait",)
    shared = {"LAMINA_CACHE_DIR": f"{caches}/lamina", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}

    def begin(name: str) -> "subprocess.Popen[str]":
        return start("bench_gpu_worker", name, {**cache_folders(caches, name), **shared}, *arguments)

    waiting = begin(names[0])
    for name, after in zip(names, [*names[1:], None], strict=True):
        process = waiting
        if after is not None:
            waiting = begin(after)
        yield name, finish(process, GPU_SECONDS)


def cache_folders(caches: str, name: str) -> dict[str, str]:
    folder = f"{caches}/{''.join(c if c.isalnum() else '-' for c in name)}"
    return {"LAMINA_CACHE_DIR": f"{folder}/lamina", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}


def this_cpu(_: Mapping[str, Any]) -> str:
    device = host()
    return f"{device.processor} ({device.simd_bits}-bit vectors, {torch.get_num_threads()} threads), torch {torch.__version__}"


def that_gpu(found: Mapping[str, Any]) -> str:
    return next((f["machine"] for f in found.values() if "machine" in f), "a GPU that measured nothing")


def row(name: str, found: Found) -> str:
    return f"{name}: failed: {found['failed']}" if "failed" in found else f"measured {name}"


def store(folder: Path, found: Mapping[str, Any], suite: Suite) -> list[str]:
    """Writes the figures, with those of other workloads that this machine has stored before; lines that say what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    data, page = folder / f"{suite.file}.json", folder / f"{suite.file}.md"
    machine = suite.machine(found)
    if data.exists() and (before := json.loads(data.read_text()))["machine"] == machine:
        found = {**before["workloads"], **found}
    ordered = {name: found[name] for name in suite.names if name in found}
    data.write_text(json.dumps({"machine": machine, "workloads": ordered}, indent=1) + "\n")
    page.write_text(figures.markdown(suite.tables(ordered), machine, suite.command))
    lines = [f"written: {data}", f"written: {page}"]
    return lines if suite.plot is None else [*lines, suite.plot(ordered, folder / f"{suite.file}.png")]


SUITES = {
    "cpu": Suite((*WORKLOADS, CALL), on_cpu, row, figures.tables, figures.goals, this_cpu, "figures", "make bench"),
    "nvvm": Suite(
        (*GPU_WORKLOADS, GPU_CALL),
        on_gpu,
        figures_gpu.row,
        figures_gpu.tables,
        figures_gpu.goals,
        that_gpu,
        "figures-gpu",
        "python tools/bench.py --target nvvm --store",
        draw,
    ),
}
