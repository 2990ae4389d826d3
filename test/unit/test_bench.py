"""The tables and goals of `make bench`, on figures made up here, and its clock."""

import io
import json
from pathlib import Path

from rich.console import Console

from lamina.tools.benchmarks import timing
from lamina.tools.benchmarks.suites import SUITES, store
from lamina.tools.benchmarks.tables import figures
from lamina.tools.benchmarks.workloads import CALL

COMPILE = {
    "lamina": {"graph_to_result": 0.2, "tracing": 0.3},
    "torch.compile": {"graph_to_result": 2.0, "tracing": 0.3},
}
WARM = {"lamina": {"graph_to_result": 0.2, "tracing": 0.3}, "torch.compile": {"graph_to_result": 0.5, "tracing": 0.3}}
FOUND = {
    "softmax": {
        "kind": "kernel", "ratio": 0.8, "memory": True, "compile": COMPILE, "warm": WARM, "errors": {"lamina": 1e-7},
        "call": {"eager": 8e-3, "torch.compile": 10e-3, "lamina": 5e-3},
        "kernel": {"seconds": 4e-3, "kernels": 1, "bytes": 8e6, "copy_seconds": 6e-3, "copy_bytes": 16e6},
    },
    "MLP": {
        "kind": "model", "ratio": 0.95, "memory": False, "compile": COMPILE, "errors": {"lamina": 1e-6},
        "call": {"eager": 8e-3, "torch.compile": 10e-3, "lamina": 9e-3},
    },
    "GPT-2": {"failed": "ran out of memory"},
    CALL: {
        "kind": "call",
        "call": {"eager": 9e-6, "lamina.compile": 3e-6, "null": 9e-6, "lamina": 13e-6, "torch.compile": 15e-6},
    },
}  # fmt: skip


def test_goals() -> None:
    reached = dict(figures.goals(FOUND))
    assert reached["softmax: at most 0.8 of torch.compile"]
    assert reached["softmax: cold at most 0.25 of torch.compile"]
    assert not reached["softmax: warm at most 0.1 s"]
    assert not reached["softmax: at least 80% of copy bandwidth"]  # 2 GB/s of 2.67
    assert reached["MLP: at most 0.95 of torch.compile"] and not reached["MLP: at most 0.95 of eager"]
    assert not reached["GPT-2: runs"]
    assert reached["lamina.compile: at most 8 us a call"] and not reached["torch.compile: at most 3 us above null"]


def test_tables() -> None:
    text = figures.markdown(figures.tables(FOUND), "a machine")
    assert "| softmax | 8.00 | 10.00 | 5.00 | 0.50 | 0.62 | 75% | 1e-07 |" in text
    assert "| MLP | 2.00 | 0.20 | 0.10 |  |  | 0.30 |" in text
    assert "| torch.compile, Lamina | 13.0 |" in text
    assert "| GPT-2 | ran out of memory |" in text
    console = Console(record=True, width=200, file=io.StringIO())
    figures.show(figures.tables(FOUND), console)
    assert "0.50" in console.export_text()


def test_stored_figures_keep_other_workloads(tmp_path: Path) -> None:
    store(tmp_path, {"MLP": FOUND["MLP"]}, SUITES["cpu"])
    data, page = store(tmp_path, {"softmax": FOUND["softmax"]}, SUITES["cpu"])
    assert list(json.loads(data.read_text())["workloads"]) == ["softmax", "MLP"]
    assert "softmax" in page.read_text() and "MLP" in page.read_text()


def test_interleaved_calls_in_turns() -> None:
    called: list[str] = []
    times = timing.interleaved({"a": lambda: called.append("a"), "b": lambda: called.append("b")}, budget=0.0, rounds=3)
    assert set(times) == {"a", "b"} and all(0 < t < 1 for t in times.values())
    turns = [name for i, name in enumerate(called) if i == 0 or called[i - 1] != name]
    assert turns[-6:] == ["a", "b"] * 3
