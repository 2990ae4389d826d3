"""Runs lit tests as pytest items: every .mlir or .test file of the tree is one, run by lit's own shell, several at a time.

Where there are many, `prefork` imports what they run once for all. No test sees the store of tuning of whoever runs it. Random inputs
are seeded by `seeds`."""

import gc
import logging
import os
import socket
import subprocess
import sys
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

from lamina.frontend.capture.frames import in_one_chunk
from lamina.passes.families.conv import layout

# Processes share the cores: a thread that waits by spinning takes the time of one that computes. OpenMP reads this when torch is
# imported, first by a plugin.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
pytest_plugins = ["seeds"]

ROOT = Path(__file__).parent
_POOL = pytest.StashKey[ThreadPoolExecutor]()
_CONFIG = pytest.StashKey[lit.LitConfig.LitConfig]()
_STORE = pytest.StashKey[TemporaryDirectory[str]]()
_TOOLS = pytest.StashKey["Tools"]()
_DONE = pytest.StashKey[int]()


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
        self.config.stash[_TOOLS].start()
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
    """Carries lit's output for a test that failed."""


class Tools:
    """The process that runs lit tests' tools; until it is started they run as separate processes."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.worthwhile = False
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it if that is worthwhile. Tools that ask before it has imported all wait."""
        if self._process is not None or not self.worthwhile:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self.path)
            listener.listen(64)
            command = [sys.executable, str(ROOT / "prefork.py"), "serve", str(listener.fileno())]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()])

    def stop(self) -> None:
        """Ends the process; it also ends when this process does."""
        if self._process is not None:
            self._process.communicate()


def pytest_configure(config: pytest.Config) -> None:
    # pytest listens to every logger that it finds. This one of torch writes texts of all that is traced, where anybody listens.
    logging.root.manager.loggerDict.pop("torch.__trace", None)
    config.stash[_STORE] = TemporaryDirectory(prefix="lamina-tests-")
    config.stash[_TOOLS] = Tools(str(Path(config.stash[_STORE].name) / "tools"))
    os.environ["LAMINA_TEST_TOOLS"] = config.stash[_TOOLS].path
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


def pytest_sessionstart(session: pytest.Session) -> None:
    """Sets the level of what tests log, once for all: torch traces by hundreds of empty debugging lines. By the setting `log_level`,
    pytest would set it twelve times for each test, and logging would go through all of torch's loggers each time."""
    logging.root.setLevel(logging.INFO)
    plugin: Any = session.config.pluginmanager.getplugin("logging-plugin")
    for handler in (plugin.caplog_handler, plugin.report_handler) if plugin is not None else ():
        handler.setLevel(logging.INFO)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> LitFile | None:
    inside = file_path.relative_to(ROOT).parts if file_path.is_relative_to(ROOT) else ()
    if file_path.suffix in (".mlir", ".test") and inside and not {"Inputs", "Output", "unit", "e2e"} & set(inside):
        return LitFile.from_parent(parent, path=file_path)
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Moves lit tests to the front, so that their processes do not run beside tests that measure."""
    config.stash[_TOOLS].worthwhile = sum(isinstance(item, LitItem) for item in items) > 8
    ordered = sorted(items, key=lambda item: not isinstance(item, LitItem))
    items[:] = ordered  # type: ignore[index]  # pytest wants the list changed in place


def pytest_collection_finish(session: pytest.Session) -> None:
    """Spares tests searching all that is imported for garbage, and searching for it often, as is done between tests; mapping memory
    for frames; and what a torch that is known spends on what they do not depend on, unless LAMINA_TEST_PLAIN_TORCH is set."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 1_000)
    for item in session.items:
        item.runtest = in_one_chunk(item.runtest)  # type: ignore[method-assign]
    if "torch._dynamo" in sys.modules:
        from quick_torch_fits import FITS

        if FITS:
            import quick_torch

            quick_torch.install()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Spares later tests searching for garbage what was imported and cached up to now: it is as much again, and stays.

    What Dynamo has kept of tests goes between two files, now and then: tracing takes longer the more graphs there are, each of which
    is a class."""
    stash = item.session.stash
    stash[_DONE] = done = stash.get(_DONE, 0) + 1
    if done >= 1024 and (nextitem is None or nextitem.path != item.path):
        stash[_DONE] = 0
        if dynamo := sys.modules.get("torch._dynamo"):
            dynamo.reset()
        gc.unfreeze()
    elif done % 32:
        return
    gc.collect()
    gc.freeze()


def pytest_runtestloop(session: pytest.Session) -> None:
    """Starts all lit tests at once, unless this is one of pytest-xdist's processes, which get their tests one by one."""
    if not session.config.option.collectonly and not hasattr(session.config, "workerinput"):
        for item in session.items:
            if isinstance(item, LitItem):
                item.start(session.config.stash[_POOL])


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_POOL].shutdown(cancel_futures=True)
    config.stash[_TOOLS].stop()
    config.stash[_STORE].cleanup()


@pytest.fixture(autouse=True)
def no_compilation_goes_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Has each test wait for what it compiles on a thread: under the next one's patches it would pass for that one's. Asks for
    monkeypatch to do so before the test's own patches go."""
    yield
    if worker := sys.modules.get("lamina.frontend.compiling.worker"):
        worker.finish()


@pytest.fixture(scope="session")
def run_module(pytestconfig: pytest.Config) -> list[str]:
    """The start of a command that runs a module as `python -m` does: in a fork of the process that runs lit tests' tools, where many
    tests run, since importing torch takes seconds. It finds modules in its own directory, and PYTHONPATH is that of the tests."""
    tools = pytestconfig.stash[_TOOLS]
    tools.start()
    return [sys.executable, "-S", "-E", str(ROOT / "prefork.py"), tools.path]


@pytest.fixture
def channels_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives every convolution for a GPU channels last, which Lamina's kernels need, however small it is."""
    monkeypatch.setattr(layout, "channels_last_calls", lambda function, calls, gpu: calls)
