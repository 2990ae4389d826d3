"""Defines the suites of workloads that bench.py measures, how their processes run, and where their figures are stored."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from lamina.core.device import host
from lamina.tools.benchmarks.gpu_workloads import GPU_WORKLOADS
from lamina.tools.benchmarks.hot_workloads import AUTOTUNED, HOT_WORKLOADS
from lamina.tools.benchmarks.serve import Results, Worker, command
from lamina.tools.benchmarks.tables import figures_cpu, figures_gpu, figures_hot
from lamina.tools.benchmarks.tables.figures import Figures, Judged, goals, markdown
from lamina.tools.benchmarks.tables.roofline_plot import draw
from lamina.tools.benchmarks.workloads import WORKLOADS, Workload

AHEAD = 2  # processes that import while another measures: the first import on a machine takes longer than a kernel's figures


@dataclass(frozen=True)
class Suite:
    """A suite of workloads.

    workloads    by name, in order
    run          yields the figures of some workloads as they are measured: (names, quick, folder for caches)
    make_tables  formats figures and judged goals
    machine      describes what the figures were measured on
    file         name of the stored files, without suffix
    command      the command that makes them
    draw         writes a plot next to them, and returns a line for the terminal
    """

    workloads: Mapping[str, Workload]
    run: Callable[[Sequence[str], bool, str], Iterator[tuple[str, Results]]]
    make_tables: Callable[[Results, list[Judged]], list[Figures]]
    machine: Callable[[], str]
    file: str
    command: str
    draw: Callable[[Mapping[str, Any], Path], str] | None = None

    def tables(self, results: Results) -> list[Figures]:
        """Returns the tables of `results`."""
        return self.make_tables(results, goals(results, self.workloads))


def on_cpu(names: Sequence[str], quick: bool, caches: str) -> Iterator[tuple[str, Results]]:
    """Yields figures of each workload on the CPU; those of a second process, with filled caches, are under "warm"."""
    seconds = 1200  # torch.compile is slow
    for i, name in enumerate(names):
        with Worker(command("benchmarks.worker"), environment=_environment(f"{caches}/{i}")) as worker:
            asked = {"name": name, "budget": 1.0 if quick else 12.0}
            found = worker.ask(asked, seconds)
            if "cold" in found and not quick:
                again = worker.ask({**asked, "compile_only": True}, seconds)
                found = again if "failed" in again else {**found, "warm": again["cold"]}
        yield name, found


def on_gpu(names: Sequence[str], quick: bool, caches: str) -> Iterator[tuple[str, Results]]:
    """Yields figures of each workload on the GPU."""
    packages = {"kernel": ("jax",), "model": ("transformers", "torchvision")}
    workers = {
        name: Worker(
            command("benchmarks.gpu_worker", packages.get(GPU_WORKLOADS[name].kind, ())),
            environment={**_environment(f"{caches}/{i}"), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
        )
        for i, name in enumerate(names)
    }
    return started_ahead(workers, quick, 150)


def hot_on_gpu(names: Sequence[str], quick: bool, caches: str) -> Iterator[tuple[str, Results]]:
    """Yields figures of hot ops on the GPU, each of which has an empty tuning store of its own.

    torch.compile's cache is shared, so that what it knows of products of one size is kept. Workloads that wait for max-autotune
    come last, in case there is not time for all.
    """
    workers = {
        name: Worker(
            command("benchmarks.gpu_worker", ("transformers",) if HOT_WORKLOADS[name].kind == "tuning" else ()),
            environment={**_environment(caches), "LAMINA_TUNE_STORE": f"{caches}/{i}.json"},
        )
        for i, name in enumerate(sorted(names, key=lambda name: AUTOTUNED in HOT_WORKLOADS[name].needs))
    }
    return started_ahead(workers, quick, 120)


def started_ahead(workers: Mapping[str, Worker], quick: bool, limit: float) -> Iterator[tuple[str, Results]]:
    """Yields figures of workers on the GPU. AHEAD of them are started early, to import while those before them measure."""
    if not torch.cuda.is_available():
        sys.exit("this measures on an NVIDIA GPU, and torch finds none here")
    for i, (name, worker) in enumerate(workers.items()):
        for later in list(workers.values())[i : i + AHEAD + 1]:
            later.start()
        yield name, worker.ask({"name": name, "quick": quick}, limit)


def _environment(folder: str) -> dict[str, str]:
    """Returns an environment whose caches are in a folder."""
    return {**os.environ, "LAMINA_CACHE_DIR": f"{folder}/lamina", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}


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


def store(folder: Path, results: Results, suite: Suite) -> tuple[Path, Path]:
    """Writes the figures as JSON and Markdown, with those of other workloads that this machine has stored before."""
    folder.mkdir(parents=True, exist_ok=True)
    data, page = folder / f"{suite.file}.json", folder / f"{suite.file}.md"
    machine = suite.machine()
    if data.exists() and (before := json.loads(data.read_text()))["machine"] == machine:
        results = {**before["workloads"], **results}
    ordered = {name: results[name] for name in suite.workloads if name in results}
    data.write_text(json.dumps({"machine": machine, "workloads": ordered}, indent=1) + "\n")
    page.write_text(markdown(suite.tables(ordered), machine, suite.command))
    return data, page


def plot(folder: Path, suite: Suite) -> str:
    """Draws what store() has written, if the suite has a plot; returns a line with the path, or with what is missing."""
    if suite.draw is None:
        return ""
    stored = json.loads((folder / f"{suite.file}.json").read_text())["workloads"]
    return suite.draw(stored, folder / f"{suite.file}.png")


_GPU_COMMAND = "python tools/bench.py --target nvvm"
SUITES = {
    "cpu": Suite(WORKLOADS, on_cpu, figures_cpu.tables, this_cpu, "figures", "make bench"),
    "nvvm": Suite(GPU_WORKLOADS, on_gpu, figures_gpu.tables, this_gpu, "figures-gpu", f"{_GPU_COMMAND} --store", draw),
    "hot": Suite(HOT_WORKLOADS, hot_on_gpu, figures_hot.tables, this_gpu, "figures-hot", f"{_GPU_COMMAND} --suite hot --store"),
}
