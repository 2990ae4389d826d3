"""Runs compilations on a thread of their own, while calls go on."""

import threading
from collections import deque
from collections.abc import Callable


class CompilingThread:
    """Runs tasks one after the other on a thread, which ends when there are none left, or with the main thread."""

    def __init__(self) -> None:
        self._tasks: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, task: Callable[[], None]) -> None:
        """Has a task run after those before it."""
        with self._lock:
            self._tasks.append(task)
            if self._thread is None or not self._thread.is_alive():  # in a forked process it is not
                self._thread = threading.Thread(target=self._run, name="lamina-compile")
                self._thread.start()

    def _run(self) -> None:
        while threading.main_thread().is_alive():
            with self._lock:
                if not self._tasks:
                    self._thread = None
                    return
                task = self._tasks.popleft()
            task()

    def finish(self) -> None:
        """Waits until all tasks are done."""
        while (thread := self._thread) is not None:
            thread.join()


WORKER = CompilingThread()


def finish() -> None:
    """Waits for all compilations in the background: programs that Options.specialize asks for, and kernels for ranges of
    sizes that calls have met."""
    WORKER.finish()
