"""Checks the documents: the page of passes is up to date, links resolve, and the README's figures are in docs/figures.md."""

import re
from pathlib import Path

import pytest

from lamina.targets import registry
from lamina.tools import pass_docs
from lamina.tools.pass_docs import page

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def test_passes_are_up_to_date() -> None:
    assert (ROOT / "docs" / "passes.md").read_text() == page(), "python -m lamina.tools.pass_docs docs/passes.md"


def test_an_op_without_a_row_is_named_and_the_page_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {name: dict(table) for name, table in registry.tile_ops().items()}
    del tables["nvvm"]["tile.sort"]
    monkeypatch.setattr(pass_docs, "tile_ops", lambda: tables)
    (tmp_path / "passes.md").write_text("as before")
    with pytest.raises(SystemExit, match="table of nvvm has no row for tile.sort"):
        pass_docs.main([str(tmp_path / "passes.md")])
    assert (tmp_path / "passes.md").read_text() == "as before"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text()
    assert [p.name for p in folder.glob("[0-9]*.md") if f"({p.name})" not in listed] == []


def test_figures_of_the_readme_are_recorded() -> None:
    found = re.search(r"<!-- figures -->\n(.*?)<!-- end of figures -->", (ROOT / "README.md").read_text(), re.DOTALL)
    assert found
    recorded = (ROOT / "docs" / "figures.md").read_text().splitlines()
    assert [line for line in found[1].splitlines() if line.startswith("|") and line not in recorded] == []


def test_gpu_figures_of_the_readme_are_recorded() -> None:
    """The README shows some of the recorded columns."""
    found = re.search(r"<!-- GPU figures -->\n(.*?)<!-- end of GPU figures -->", (ROOT / "README.md").read_text(), re.DOTALL)
    assert found
    recorded = [_cells(line) for line in (ROOT / "docs" / "figures-gpu.md").read_text().splitlines() if line.startswith("|")]
    for row in (_cells(line) for line in found[1].splitlines() if line.startswith("| ") and not line.startswith("| ---")):
        assert any(row[0] == other[0] and set(row) <= set(other) for other in recorded), row


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]
