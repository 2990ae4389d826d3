"""Locks between processes, so that many can compile at the same time, but one alone measures."""

import fcntl
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path


class Turns:
    """A lock between processes: shared while they compile, exclusive while one measures.

    It is made of two files. A process that wants the second holds the first until it has it. One that waits to measure so keeps
    others from starting to compile, and gets the lock as soon as the current compiles end.
    """

    def __init__(self, path: Path) -> None:
        self._files = ExitStack()
        self._gate, self._lock = (
            self._files.enter_context(file.open("a")).fileno() for file in (path.with_name(f"{path.name}.gate"), path)
        )

    def close(self) -> None:
        """Releases the lock."""
        self._files.close()

    def compiling(self) -> AbstractContextManager[None]:
        """Holds the lock, shared."""
        return self._held(fcntl.LOCK_SH)

    def measuring(self) -> AbstractContextManager[None]:
        """Holds the lock, exclusively."""
        return self._held(fcntl.LOCK_EX)

    def switch(self, *, alone: bool) -> None:
        """Releases the lock that the process holds and takes it again, exclusively if `alone`, else shared."""
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
