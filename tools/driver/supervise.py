"""Runs work in a forked child process, so that a crash of the toolchain costs one line of text and not the driver.

MLIR and LLVM end the process on some inputs (a segmentation fault in a translation, report_fatal_error). The child is forked before
anything heavy is imported, which takes about a millisecond; it leaves a note of what it is about to do in shared memory.
"""

import gc
import mmap
import os
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

_SIZE = 4096


class Board:
    """A short note in shared memory that outlives the process that wrote it."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SIZE)

    def write(self, note: str) -> None:
        """Replaces the note; cuts it at 4095 bytes."""
        text = note.encode()[: _SIZE - 1]
        self._memory[: len(text) + 1] = text + b"\0"

    def read(self) -> str:
        """Returns the note; it is "" until one is written."""
        return self._memory[:].partition(b"\0")[0].decode(errors="replace")


@dataclass(frozen=True)
class Outcome:
    """The way in which the work ended.

    status  its exit status; 128 plus the number of the signal that ended it
    signal  the name of that signal, "" if there was none
    """

    status: int
    signal: str = ""


def supervise(work: Callable[[], int]) -> Outcome:
    """Runs `work` in a forked child and waits for it. Forwards SIGINT and SIGTERM to the child."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _run_and_exit(work)

    def forward(number: int, _frame: FrameType | None) -> None:
        """Passes a signal on to the child."""
        os.kill(child, number)

    before = {s: signal.signal(s, forward) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        _, status = os.waitpid(child, 0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if os.WIFSIGNALED(status):
        return Outcome(128 + os.WTERMSIG(status), signal.Signals(os.WTERMSIG(status)).name)
    return Outcome(os.WEXITSTATUS(status))


def _run_and_exit(work: Callable[[], int]) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    gc.set_threshold(1_000_000, 50, 1000)  # imports make objects that stay: a fifth of a short run would go by in searching these
    status = 1
    try:
        status = work()
        sys.stdout.flush()
        sys.stderr.flush()
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:
        status = 141
    finally:
        os._exit(status)  # skips the interpreter's teardown, which takes 30 ms: the parent holds what matters
