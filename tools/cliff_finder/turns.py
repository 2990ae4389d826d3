"""Lets many processes compile at the same time, and one alone measure."""

import fcntl
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path


class Turns:
    """A lock that processes share while they compile, and that one holds alone while it measures.

    Two files are locked. Whoever wants the second holds the first until it has it: who waits to measure keeps others from beginning
    to compile, and so gets its turn when those that compile now are done.
    """

    def __init__(self, path: Path) -> None:
        self._files = ExitStack()
        self._gate, self._lock = (
            self._files.enter_context(file.open("a")).fileno() for file in (path.with_name(f"{path.name}.gate"), path)
        )

    def close(self) -> None:
        """Gives the lock back."""
        self._files.close()

    def compiling(self) -> AbstractContextManager[None]:
        """Holds the lock with others."""
        return self._held(fcntl.LOCK_SH)

    def measuring(self) -> AbstractContextManager[None]:
        """Holds the lock alone."""
        return self._held(fcntl.LOCK_EX)

    def switch(self, *, alone: bool) -> None:
        """Gives the lock back that the process has, and takes it alone, or with others."""
        self._release()
        self._take(fcntl.LOCK_EX if alone else fcntl.LOCK_SH)

    @contextmanager
    def _held(self, how: int) -> Iterator[None]:
        self._take(how)
        try:
            yield
        finally:
            self._release()

    def _take(self, how: int) -> None:
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._lock, how)
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)

    def _release(self) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_UN)
