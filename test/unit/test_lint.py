"""Runs the fast parts of `make lint`: ruff's rules and format, and the import contracts between folders."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMANDS = {
    "rules": ("-m", "ruff", "check", "."),
    "format": ("-m", "ruff", "format", "--check", "."),
    "imports": ("-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_tree_is_clean(name: str) -> None:
    pytest.importorskip("importlinter" if name == "imports" else "ruff", reason="lint tools are not installed")
    done = subprocess.run([sys.executable, *COMMANDS[name]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
