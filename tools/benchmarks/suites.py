"""Defines the suites of workloads that bench.py measures, how their processes run, and where their figures are stored."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from lamina.core.device import host
from lamina.tools.benchmarks.gpu_workloads import GPU_CALL, GPU_WORKLOADS
from lamina.tools.benchmarks.hot_workloads import HOT_WORKLOADS, TUNING
from lamina.tools.benchmarks.serve import start
from lamina.tools.benchmarks.tables import figures, figures_gpu, figures_hot
from lamina.tools.benchmarks.tables.roofline_plot import draw
from lamina.tools.benchmarks.workloads import CALL, WORKLOADS

Found = dict[str, Any]
CPU_SECONDS, GPU_SECONDS, HOT_SECONDS = 1200, 150, 120  # for one workload, where torch.compile is slow
AHEAD = 2  # processes that import while another measures: the first import on a machine takes longer than a kernel's figures


@dataclass(frozen=True)
class Suite:
    """A suite of workloads.

    names    of the workloads, in order
    run      yields the figures of some workloads as they are measured: (names, quick, folder for caches)
    figures  the module whose `row` formats one workload's figures in a line, `tables` all as tables, and whose `goals` judges them
    machine  describes what the figures were measured on
    file     name of the stored files, without suffix
    command  the command that makes them
    draw     writes a plot beside them, and returns a line that says so
    """

    names: Sequence[str]
    run: Callable[[Sequence[str], bool, str], Iterator[tuple[str, Found]]]
    figures: ModuleType
    machine: Callable[[], str]
    file: str
    command: str
    draw: Callable[[Mapping[str, Any], Path], str] | None = None


def finish(process: "subprocess.Popen[str]", question: Mapping[str, Any], limit: float) -> Found:
    """Asks a worker its only question and returns the last line of what it prints, as data.

    Returns {"failed": text} if it prints nothing. If it printed figures before it failed or took more than `limit` seconds, the
    reason is in their "notes".
    """
    failed = ""
    try:
        printed, errors = process.communicate(f"{json.dumps(question)}\n", timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        printed, _ = process.communicate()
        failed = f"took more than {limit} s"
    if not failed and process.returncode:
        failed = (errors.strip().splitlines() or [f"exit status {process.returncode}"])[-1]
    if not printed.strip():
        return {"failed": failed}
    result: Found = json.loads(printed.splitlines()[-1])
    return {**result, "notes": {**result.get("notes", {}), "the process": failed}} if failed else result


def on_cpu(names: Sequence[str], quick: bool, caches: str) -> Iterator[tuple[str, Found]]:
    """Yields figures of each workload on the CPU; those of a second process, with filled caches, are under "warm"."""
    for name in names:
        environment = {**os.environ, **cache_folders(caches, name)}
        asked = {"name": name, "budget": 1.0 if quick else 12.0}
        found = finish(start("benchmarks.worker", environment=environment), asked, CPU_SECONDS)
        if "failed" not in found and name != CALL and not quick:
            again = finish(start("benchmarks.worker", environment=environment), {**asked, "compile_only": True}, CPU_SECONDS)
            found = again if "failed" in again else {**found, "warm": again["compile"]}
        yield name, found


def on_gpu(names: Sequence[str], quick: bool, caches: str) -> Iterator[tuple[str, Found]]:
    """Yields figures of each workload on the GPU."""
    shared = {"LAMINA_CACHE_DIR": f"{caches}/lamina", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    folders = {name: {**cache_folders(caches, name), **shared} for name in names}
    packages = {name: ("jax",) if w.kind == "kernel" else ("transformers", "torchvision") for name, w in GPU_WORKLOADS.items()}
    return started_ahead("benchmarks.gpu_worker", folders, packages, quick, GPU_SECONDS)


def hot_on_gpu(names: Sequence[str], quick: bool, caches: str) -> Iterator[tuple[str, Found]]:
    """Yields figures of hot ops on the GPU, each of which has an empty tuning store of its own.

    torch.compile's cache is shared, so that what it knows of products of one size is kept. Workloads that wait for max-autotune
    come last, in case there is not time for all.
    """
    order = sorted(names, key=lambda name: name in HOT_WORKLOADS and HOT_WORKLOADS[name].autotuned)
    folders = {
        name: {"LAMINA_TUNE_STORE": f"{caches}/{i}.sqlite", "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor"}
        for i, name in enumerate(order)
    }
    return started_ahead("benchmarks.hot_worker", folders, {TUNING: ("transformers",)}, quick, HOT_SECONDS)


def started_ahead(
    module: str, folders: Mapping[str, Mapping[str, str]], packages: Mapping[str, Sequence[str]], quick: bool, limit: float
) -> Iterator[tuple[str, Found]]:
    """Yields figures of workers on the GPU. AHEAD of them are started early, to import while those before them measure.

    folders   environment variables that name folders, by workload
    packages  what a workload needs that takes long to import
    """
    if not torch.cuda.is_available():
        sys.exit("this measures on an NVIDIA GPU, and torch finds none here")
    names = list(folders)
    started: list[subprocess.Popen[str]] = []
    for i, name in enumerate(names):
        for later in names[len(started) : i + AHEAD + 1]:
            started.append(start(module, packages.get(later, ()), environment={**os.environ, **folders[later]}))
        yield name, finish(started[i], {"name": name, "quick": quick}, limit)


def cache_folders(caches: str, name: str) -> dict[str, str]:
    """Returns the environment variables that give a workload empty caches of its own in `caches`."""
    folder = f"{caches}/{''.join(c if c.isalnum() else '-' for c in name)}"
    return {"LAMINA_CACHE_DIR": f"{folder}/lamina", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}


def this_cpu() -> str:
    """Describes the CPU and the version of torch."""
    device = host()
    return f"{device.processor} ({device.simd_bits}-bit vectors, {torch.get_num_threads()} threads), torch {torch.__version__}"


def this_gpu() -> str:
    """Describes the GPU and the versions of packages."""
    versions = []
    for package in ("torch", "triton", "jax", "transformers", "torchvision"):
        with suppress(PackageNotFoundError):
            versions.append(f"{package} {version(package)}")
    return ", ".join([torch.cuda.get_device_name(), *versions])


def store(folder: Path, found: Mapping[str, Any], suite: Suite) -> tuple[Path, Path]:
    """Writes the figures as JSON and Markdown, with those of other workloads that this machine has stored before."""
    folder.mkdir(parents=True, exist_ok=True)
    data, page = folder / f"{suite.file}.json", folder / f"{suite.file}.md"
    machine = suite.machine()
    if data.exists() and (before := json.loads(data.read_text()))["machine"] == machine:
        found = {**before["workloads"], **found}
    ordered = {name: found[name] for name in suite.names if name in found}
    data.write_text(json.dumps({"machine": machine, "workloads": ordered}, indent=1) + "\n")
    page.write_text(figures.markdown(suite.figures.tables(ordered), machine, suite.command))
    return data, page


def plot(folder: Path, suite: Suite) -> str:
    """Draws what store() has written, if the suite has a plot; returns a line that says so, or why not."""
    if suite.draw is None:
        return ""
    stored = json.loads((folder / f"{suite.file}.json").read_text())["workloads"]
    return suite.draw(stored, folder / f"{suite.file}.png")


SUITES = {
    "cpu": Suite((*WORKLOADS, CALL), on_cpu, figures, this_cpu, "figures", "make bench"),
    "nvvm": Suite(
        (*GPU_WORKLOADS, GPU_CALL),
        on_gpu,
        figures_gpu,
        this_gpu,
        "figures-gpu",
        "python tools/bench.py --target nvvm --store",
        draw,
    ),
    "hot": Suite(
        (*HOT_WORKLOADS, TUNING),
        hot_on_gpu,
        figures_hot,
        this_gpu,
        "figures-hot",
        "python tools/bench.py --target nvvm --suite hot --store",
    ),
}
