"""Checks the sources as a whole: the length of files, the number of files in a folder, and that each class name is used once."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = [p for top in ("python/lamina", "passes", "dialects", "tools") for p in (ROOT / top).rglob("*.py")]


def test_files_are_short() -> None:
    assert len(FILES) > 400
    assert not [str(p) for p in FILES if len(p.read_text().splitlines()) > 300]


def test_folders_hold_few_files() -> None:
    assert max(Counter(p.parent for p in FILES).values()) <= 16


def test_public_classes_have_names_of_their_own() -> None:
    names = Counter(
        n.name for p in FILES for n in ast.parse(p.read_text()).body if isinstance(n, ast.ClassDef) and not n.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_the_front_end_decides_nothing_by_device() -> None:
    """Except which language a user's kernel is in, and which arguments are moved to a GPU."""
    front = ROOT / "python/lamina/frontend"
    found = {p.relative_to(front) for p in front.rglob("*.py") if re.search(r"\bon_gpu\b|\bis_cuda\b", p.read_text())}
    assert found == {Path("calls/call.py"), Path("custom/declare.py"), Path("custom/launch.py")}


def test_definitions_with_public_names_say_what_they_do() -> None:
    """Also methods of private classes, which ruff does not check. Nested functions are exempt."""

    def bare(of: ast.Module | ast.ClassDef) -> Iterator[str]:
        for n in of.body:
            if isinstance(n, ast.ClassDef):
                yield from bare(n)
            if isinstance(n, ast.ClassDef | ast.FunctionDef) and not n.name.startswith("_") and not ast.get_docstring(n):
                yield n.name

    assert [f"{p.relative_to(ROOT)}: {name}" for p in FILES for name in bare(ast.parse(p.read_text()))] == []
