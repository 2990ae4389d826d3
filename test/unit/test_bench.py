"""Tests the tables and goals of `make bench`, on invented figures, and its clock."""

import io
import json
import math
from pathlib import Path

import torch
from rich.console import Console

from lamina.tools.benchmarks import timing
from lamina.tools.benchmarks.suites import SUITES, store
from lamina.tools.benchmarks.tables import figures
from lamina.tools.benchmarks.worker import largest_difference

CPU = SUITES["cpu"]
CALL = "call on 64 elements"
COMPILE = {"cold": {"lamina": 0.2, "torch.compile": 2.0}, "tracing": {"lamina": 0.3, "torch.compile": 0.3}}
FOUND = {
    "softmax": {
        "kind": "kernel", **COMPILE, "warm": {"lamina": 0.2, "torch.compile": 0.5}, "errors": {"lamina": 1e-7},
        "times": {"eager": 8e-3, "torch.compile": 10e-3, "lamina": 5e-3},
        "alone": {"lamina": 4e-3}, "work": {"bytes": 8e6, "flops": 0}, "roofs": {"bandwidth": 16e6 / 6e-3},
    },
    "MLP": {
        "kind": "model", **COMPILE, "errors": {"lamina": 1e-6}, "notes": {"torch.compile": "slow"},
        "times": {"eager": 8e-3, "torch.compile": 10e-3, "lamina": 9e-3},
    },
    "GPT-2": {"failed": "ran out of memory"},
    CALL: {
        "kind": "call",
        "times": {
            "eager": 9e-6, "lamina.compile": 3e-6, "null": 9e-6, "lamina": 13e-6, "torch.compile": 15e-6, "lamina above null": 4e-6,
        },
    },
}  # fmt: skip


def test_goals() -> None:
    assert figures.goals(FOUND, CPU.workloads) == [
        ("softmax: at most 0.80 of torch.compile (is 0.50)", True),
        ("softmax: at least 0.80 of copy bandwidth, by speed, kernels alone (is 0.75)", False),  # 2 GB/s of 2.67
        ("softmax: at most 0.25 of torch.compile, compiling cold (is 0.10)", True),
        ("softmax: at most 100.00 ms, compiling again (is 200.00 ms)", False),
        ("MLP: at most 0.95 of torch.compile (is 0.90)", True),
        ("MLP: at most 0.95 of eager (is 1.12)", False),
        ("MLP: at most 0.25 of torch.compile, compiling cold (is 0.10)", True),
        ("GPT-2: runs", False),
        (f"{CALL}: lamina.compile at most 8.0 us (is 3.0 us)", True),
        (f"{CALL}: lamina above null at most 3.0 us (is 4.0 us)", False),
    ]


def test_every_figure_is_in_its_line() -> None:
    line = figures.row("softmax", FOUND["softmax"], CPU.workloads)
    assert line.startswith(
        "softmax: eager 8.00 ms, torch.compile 10.00 ms, lamina 5.00 ms; kernels alone: lamina 4.00 ms; compiling"
    )
    assert line.endswith("compiling again (is 200.00 ms)") and "error 1.0e-07" in line
    assert figures.row("MLP", FOUND["MLP"], CPU.workloads).endswith("torch.compile: slow")
    assert figures.row("GPT-2", FOUND["GPT-2"], CPU.workloads) == "GPT-2: failed: ran out of memory"


def test_tables() -> None:
    text = figures.markdown(CPU.tables(FOUND), "a machine")
    assert "| softmax | 8.00 | 10.00 | 5.00 | 0.50 | 0.62 | 75% | 1e-07 |" in text
    assert "| MLP | 2.00 | 0.20 | 0.10 |  |  | 0.30 |" in text
    assert "| torch.compile, Lamina | 13.0 |" in text
    assert "| GPT-2 | all | ran out of memory |" in text
    console = Console(record=True, width=200, file=io.StringIO())
    figures.show(CPU.tables(FOUND), console)
    assert "0.50" in console.export_text()


def test_stored_figures_keep_other_workloads(tmp_path: Path) -> None:
    store(tmp_path, {"MLP": FOUND["MLP"]}, CPU)
    data, page = store(tmp_path, {"softmax": FOUND["softmax"]}, CPU)
    assert list(json.loads(data.read_text())["workloads"]) == ["softmax", "MLP"]
    assert "softmax" in page.read_text() and "MLP" in page.read_text()


def test_interleaved_calls_in_turns() -> None:
    called: list[str] = []
    times, failed = timing.interleaved({"a": lambda: called.append("a"), "b": lambda: called.append("b")}, budget=0.0, rounds=3)
    assert failed == {} and set(times) == {"a", "b"} and all(0 < t < 1 for t in times.values())
    turns = [name for i, name in enumerate(called) if i == 0 or called[i - 1] != name]
    assert turns[-6:] == ["a", "b"] * 3


def test_turns_drop_what_fails() -> None:
    def fails() -> list[float]:
        raise RuntimeError("gone")

    assert timing.in_turns({"a": lambda: [1.0, 3.0], "b": fails}, 2) == ({"a": 2.0}, {"b": "RuntimeError: gone"})


def test_differences_are_relative_and_infinite_for_nan() -> None:
    exact = (torch.tensor([1.0, -4.0], dtype=torch.float64), None)
    assert largest_difference((torch.tensor([1.0, -4.0]), None), exact) == 0
    assert largest_difference((torch.tensor([1.0, -3.0]), None), exact) == 0.25
    assert largest_difference((torch.tensor([1.0, float("nan")]), None), exact) == math.inf
