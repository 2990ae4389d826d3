"""Tests the revision in tuning's keys: it depends on all code that writes kernels, but not on comments and docstrings."""

import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from unittest import mock

import pytest

import lamina
from lamina.passes.infra.pipeline_text import parse
from lamina.passes.infra.registry import PASSES
from lamina.targets.levels import pipeline
from lamina.tune import revision as tuned
from lamina.tune.revision import code_digest, modules, revision

HERE = Path(lamina.__file__).parent


@pytest.fixture(scope="module", autouse=True)
def _each_text_is_read_once() -> Iterator[None]:
    with mock.patch.object(tuned, "read", cache(tuned.read)):
        yield


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources."""
    copy = tmp_path_factory.mktemp("package") / "lamina"
    shutil.copytree(HERE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.so", "native"))
    assert code_digest(copy) == revision()
    return copy


@pytest.fixture
def package(copied: Path) -> Iterator[Path]:
    """Returns the copy, and restores its files after the test."""
    before = {path: path.read_bytes() for path in copied.rglob("*.py")}
    yield copied
    for path, text in before.items():
        path.write_bytes(text)


@pytest.mark.parametrize(
    "file",
    [
        "passes/lower/simt/runs.py",
        "passes/tile/emit/dot.py",
        "passes/ir/expressions.py",
        "passes/lower/gpu_math/single.py",
        "passes/lower/polynomials/exponential.py",
        "passes/lower/philox.py",
        "schedules/base.py",
        "targets/llvm_text.py",
        "targets/triton/printing/ping_pong.py",
        "kernels/products/ping_pong.py",
        "core/gpu.py",
    ],
)
def test_an_edit_of_code_counts(package: Path, file: str) -> None:
    with open(package / file, "a") as source:
        source.write("\nANOTHER = 1\n")
    assert code_digest(package) != revision()


def test_a_number_counts(package: Path) -> None:
    file = package / "passes/lower/simt/divisors.py"
    text = file.read_text()
    assert "MOST = 64" in text
    file.write_text(text.replace("MOST = 64", "MOST = 32"))
    assert code_digest(package) != revision()


def test_prose_does_not_count(package: Path) -> None:
    file = package / "passes/lower/simt/runs.py"
    first, rest = file.read_text().split('"""', 2)[1:]
    text = '"""Another ' + first + '"""  # a comment\n\n\n' + rest
    assert '        """' in text or '    """' in text
    file.write_text(text.replace('    """', '    """In other words: '))
    assert code_digest(package) == revision()


def test_a_module_that_writes_no_kernels_does_not_count(package: Path) -> None:
    (package / "frontend/entry/dynamo.py").write_text("another = 1")
    (package / "tools/opt_driver.py").write_text("another = 1")
    assert code_digest(package) == revision()


def test_every_pass_on_the_way_counts() -> None:
    """Pipelines name the passes between the graph level and code without importing them."""
    found = modules(HERE)
    names = {call.name for _, call in parse(pipeline("graph", "tile", target="nvvm:sm_90a")).calls()}
    names |= set(re.findall(r"lamina-[a-z-]+\b", (HERE / "targets/nvvm/backend.py").read_text()))
    assert {"lamina-tile", "lamina-distribute", "lamina-gpu-to-nvvm"} <= names
    for name in names & PASSES.keys():
        module, _, _ = PASSES[name].partition(":")
        assert f"{module.removeprefix('lamina.').replace('.', '/')}.py" in found, name


def test_other_processes_read_it_from_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAMINA_CACHE_DIR", str(tmp_path))
    first = revision.__wrapped__()
    monkeypatch.setattr(tuned, "code_digest", None)
    assert revision.__wrapped__() == first == code_digest(HERE)
