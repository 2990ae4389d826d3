"""The sources as a whole: files that can be read in one sitting, folders that can be seen at once, one class for each name."""

import ast
from collections import Counter
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
