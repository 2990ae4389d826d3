"""The thread on which programs are compiled while calls go on."""

import os
import threading
import time
from collections.abc import Iterator

import pytest

from lamina.frontend.capture.exclusive import BUILDING
from lamina.frontend.compiling.worker import CompilingThread


class Owner:
    """Has tasks."""


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[threading.ExceptHookArgs]]:
    """Records the errors that threads report."""
    found: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", found.append)
    yield found


def test_a_task_that_fails_is_reported_and_those_after_it_are_done(reported: list[threading.ExceptHookArgs]) -> None:
    worker, owner, done = CompilingThread(), Owner(), []

    def fails(_: Owner) -> None:
        raise RuntimeWarning("a warning that is an error")

    worker.add(owner, fails)
    worker.add(owner, done.append)
    worker.finish()
    assert done == [owner]
    assert [str(one.exc_value) for one in reported] == ["a warning that is an error"]


def test_a_forked_process_can_build() -> None:
    building = threading.Event()

    def build() -> None:
        with BUILDING:
            building.set()
            time.sleep(0.2)

    thread = threading.Thread(target=build)
    thread.start()
    building.wait(60)
    if (child := os.fork()) == 0:
        os._exit(not BUILDING.acquire(timeout=30))
    assert BUILDING.acquire(timeout=30)
    BUILDING.release()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_a_forked_process_starts_a_thread_of_its_own() -> None:
    worker, owner, started, go_on = CompilingThread(), Owner(), threading.Event(), threading.Event()
    worker.add(owner, lambda _: (started.set(), go_on.wait(60)))
    started.wait(60)
    if (child := os.fork()) == 0:
        done: list[Owner] = []
        worker.finish()  # waits for no thread that this process does not have
        worker.add(owner, done.append)
        worker.finish()
        os._exit(done != [owner])
    go_on.set()
    worker.finish()
    assert os.waitpid(child, 0)[1] == 0
