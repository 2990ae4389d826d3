"""The sources as a whole: files that can be read in one sitting, folders that can be seen at once, one class for each name."""

import ast
from collections import Counter
from pathlib import Path

import lamina

ROOT = Path(lamina.__file__).parent
FILES = [p for p in ROOT.rglob("*.py") if not any(part.startswith((".", "__pycache__")) for part in p.relative_to(ROOT).parts)]


def test_files_are_short() -> None:
    assert len(FILES) > 400
    assert not [str(p) for p in FILES if len(p.read_text().splitlines()) > 300]


def test_folders_hold_few_files() -> None:
    assert max(Counter(p.parent for p in FILES).values()) <= 16


def test_public_classes_have_names_of_their_own() -> None:
    trees = {p.resolve(): ast.parse(p.read_text()) for p in FILES}
    names = Counter(n.name for t in trees.values() for n in t.body if isinstance(n, ast.ClassDef) and not n.name.startswith("_"))
    assert [name for name, count in names.items() if count > 1] == []
