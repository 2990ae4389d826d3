"""lit tests as pytest items: every .mlir or .test file of the tree is one, run by lit's own shell, several at a time.

No test sees the store of tuning of whoever runs it. Random inputs are seeded by `seeds`."""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import lit.discovery
import lit.LitConfig
import lit.Test
import lit.worker
import pytest

from lamina.passes.families.conv import layout

pytest_plugins = ["seeds"]

ROOT = Path(__file__).parent
_POOL = pytest.StashKey[ThreadPoolExecutor]()
_CONFIG = pytest.StashKey[lit.LitConfig.LitConfig]()
_STORE = pytest.StashKey[TemporaryDirectory[str]]()


class LitFile(pytest.File):
    """A file with RUN lines."""

    def collect(self) -> Iterator["LitItem"]:
        for test in lit.discovery.find_tests_for_inputs(self.config.stash[_CONFIG], [str(self.path)]):
            yield LitItem.from_parent(self, name="lit", test=test)


class LitItem(pytest.Item):
    """One lit test; `started` holds its result once the session has sent it to a thread."""

    def __init__(self, *, test: lit.Test.Test, **rest: Any) -> None:
        super().__init__(**rest)
        self.test = test
        self.started: Future[lit.Test.Result] | None = None

    def start(self, pool: ThreadPoolExecutor) -> None:
        self.started = pool.submit(lit.worker._execute, self.test, self.config.stash[_CONFIG])

    def runtest(self) -> None:
        if self.started is None:
            self.start(self.config.stash[_POOL])
        assert self.started is not None
        result = self.started.result()
        if result.code is lit.Test.UNSUPPORTED:
            pytest.skip(result.output)
        if result.code.isFailure:
            raise LitFailure(result.output)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        return str(excinfo.value) if isinstance(excinfo.value, LitFailure) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.path.relative_to(ROOT).as_posix()


class LitFailure(Exception):
    """What lit says of a test that failed."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_STORE] = TemporaryDirectory(prefix="lamina-tests-")
    os.environ["LAMINA_TUNE_STORE"] = str(Path(config.stash[_STORE].name) / "tuning.json")
    config.stash[_POOL] = ThreadPoolExecutor(max_workers=min(os.cpu_count() or 1, 8))
    config.stash[_CONFIG] = lit.LitConfig.LitConfig(
        progname="lit",
        path=[],
        diagnostic_level="note",
        useValgrind=False,
        valgrindLeakCheck=False,
        valgrindArgs=[],
        noExecute=False,
        debug=False,
        isWindows=False,
        order="smart",
        params={},
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> LitFile | None:
    inside = file_path.relative_to(ROOT).parts if file_path.is_relative_to(ROOT) else ()
    if file_path.suffix in (".mlir", ".test") and inside and not {"Inputs", "Output", "unit", "e2e"} & set(inside):
        return LitFile.from_parent(parent, path=file_path)
    return None


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """lit tests first: their processes then run beside nothing that measures."""
    ordered = sorted(items, key=lambda item: not isinstance(item, LitItem))
    items[:] = ordered  # type: ignore[index]  # pytest wants the list changed in place


def pytest_runtestloop(session: pytest.Session) -> None:
    """All lit tests at once, unless this is one of pytest-xdist's processes, which are given their tests one by one."""
    if not session.config.option.collectonly and not hasattr(session.config, "workerinput"):
        for item in session.items:
            if isinstance(item, LitItem):
                item.start(session.config.stash[_POOL])


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_POOL].shutdown(cancel_futures=True)
    config.stash[_STORE].cleanup()


@pytest.fixture
def channels_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets every convolution for a GPU have its channels last, which Lamina's kernels take, however small it is."""
    monkeypatch.setattr(layout, "cheapest", lambda function, calls, gpu: calls)
