"""Compiles better code for a program on a thread of its own, while calls go on with what the program has."""

import os
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
        os.register_at_fork(after_in_child=self._forget_thread)

    def add(self, owner: T, task: Callable[[T], object]) -> None:
        """Has a task called with its owner after the tasks before it, unless the owner is gone by then. The task must not hold the
        owner."""
        with self._lock:
            self._tasks.append((weakref.ref(owner), task))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="lamina-compile")
                self._thread.start()

    def _run(self) -> None:
        while threading.main_thread().is_alive():
            with self._lock:
                if not self._tasks:
                    self._thread = None
                    return
                reference, task = self._tasks.popleft()
            try:
                if (owner := reference()) is not None:
                    task(owner)
            except Exception as error:  # such as a warning that is an error: the tasks after it are done all the same
                threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, self._thread)))
            del owner, task

    def finish(self) -> None:
        """Waits until all tasks are done. In a forked process, those left by the process before it are done before its own."""
        while (thread := self._thread) is not None:
            thread.join()

    def _forget_thread(self) -> None:
        """Lets a forked process start a thread of its own; the other process's may have held the lock."""
        self._lock, self._thread = threading.Lock(), None


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
