"""Tests that every exercise runs and prints what its text promises."""

import runpy
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

EXERCISES = Path(__file__).parents[2] / "examples" / "exercises"


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXERCISES)


@pytest.mark.parametrize("name", sorted(file.stem for file in EXERCISES.glob("*.py")))
def test_runs_as_a_program(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    runpy.run_path(str(EXERCISES / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_fusion() -> None:
    fusion = import_module("fusion")
    counts = {
        f.__name__: (len(fusion.kernels_of(f, fusion.SMALL)), len(fusion.kernels_of(f, fusion.LARGE)))
        for f in (fusion.chain, fusion.two_chains, fusion.length, fusion.normalized)
    }
    assert counts["chain"] == counts["two_chains"] == (1, 1)
    assert counts["length"] == (1, 2)
    assert counts["normalized"][0] == 1 and counts["normalized"][1] in (2, 3)


def test_bytes_moved() -> None:
    moved = import_module("bytes_moved")
    found = moved.graph()
    array, vector = 4 * moved.ROWS * moved.COLUMNS, 4 * moved.COLUMNS
    assert (found.before.kernels, found.before.bytes) == (4, 8 * array + 2 * vector)
    assert (len(found.kernels), found.bytes) == (1, 2 * array + 2 * vector)


def test_graph_passes() -> None:
    passes = import_module("graph_passes")
    steps = {name: (before, after) for name, before, after in passes.rewritten()}
    before, after = steps["lamina-rewrite-patterns"]
    assert "gelu_tanh" in after and "gelu_tanh" not in before
    before, after = steps["lamina-dce"]
    assert "math.tanh" in before and "math.tanh" not in after
    before, after = steps["lamina-simplify"]
    assert "arith.negf" in before and "arith.negf" not in after
    assert "math.fpowi" in before and "math.fpowi" not in after
    before, after = steps["lamina-cse"]
    assert before.count("math.exp") == after.count("math.exp") + 1
    before, after = steps["lamina-fold-constants"]
    assert passes.ops(after) < passes.ops(before)


def test_all_levels() -> None:
    exercise = import_module("all_levels")
    texts = dict(exercise.levels(*exercise.model()))
    expected = {
        "aten": "torch.ops.aten.mm",
        "torch": "torch.aten.erf",
        "linalg": "linalg.generic",
        "graph": "graph.group",
        "plan": "plan.launch",
        "tile": "vector.transfer_read",
        "llvm": "llvm.func",
        "asm": ".globl",
    }
    assert list(texts) == list(expected)
    for level, part in expected.items():
        assert part in texts[level], level
    assert all("all_levels.py" in texts[level] for level in ("aten", "linalg", "graph", "plan", "tile"))


def test_demo(tmp_path: Path, run_module: list[str]) -> None:
    command = [*run_module, "lamina.tools.demo", "--only", "MLP", "--no-torch-compile", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "MLP with LayerNorm" in done.stdout and str(tmp_path) in done.stdout.replace("\n", "")
    written = {file.name for file in (tmp_path / "mlp-with-layernorm").iterdir()}
    assert {"0_aten.py", "3_graph.mlir", "7_asm.s", "explain.txt", "explain.json"} <= written
