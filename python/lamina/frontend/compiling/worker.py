"""Compiles better code for a program on a thread of its own, while calls go on with what the program has."""

import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class CompilingThread:
    """Runs tasks one after the other on a thread, which ends when there are none left, or with the main thread."""

    def __init__(self) -> None:
        self._tasks: deque[tuple[weakref.ref[Any], Callable[[Any], object]]] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, owner: T, task: Callable[[T], object]) -> None:
        """Has a task called with its owner after the tasks before it, unless the owner is gone by then. The task must not hold the
        owner, nor raise exceptions."""
        with self._lock:
            self._tasks.append((weakref.ref(owner), task))
            if self._thread is None or not self._thread.is_alive():  # in a forked process it is not
                self._thread = threading.Thread(target=self._run, name="lamina-compile")
                self._thread.start()

    def _run(self) -> None:
        while threading.main_thread().is_alive():
            with self._lock:
                if not self._tasks:
                    self._thread = None
                    return
                reference, task = self._tasks.popleft()
            if (owner := reference()) is not None:
                task(owner)
            del owner, task

    def finish(self) -> None:
        """Waits until all tasks are done."""
        while (thread := self._thread) is not None:
            thread.join()


WORKER = CompilingThread()


def finish() -> None:
    """Waits for all compilations in the background: programs that Options.specialize asks for, programs for sizes of another scale,
    and kernels for ranges of sizes that calls have met."""
    WORKER.finish()


@contextmanager
def warned(what: str) -> Iterator[None]:
    """Warns of an error in its body, which compiles `what`: what is compiled already goes on serving."""
    try:
        yield
    except Exception as error:
        warnings.warn(f"lamina compiled no {what}: {error}", stacklevel=1)
