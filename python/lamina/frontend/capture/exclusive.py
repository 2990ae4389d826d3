"""Serializes compilations in a process: tracing patches torch, and MLIR's Python bindings have state that is not thread-safe.

The lock is Dynamo's own, which is held already where Dynamo calls the backend; with a second lock, two threads could
deadlock. While it is held, Python's cycle collector is off: a compilation makes hundreds of thousands of objects that live until
its end, and searching these and everything else that the process has loaded can take a tenth of its time.
"""

import gc
import os
import threading

from torch._dynamo.convert_frame import compile_lock


class _Compiling:
    """A reentrant context manager: `with COMPILING:`."""

    def __init__(self) -> None:
        self._depth, self._collects = 0, False  # only the thread that holds the lock uses these

    def __enter__(self) -> None:
        compile_lock.acquire()
        if self._depth == 0:
            self._collects = gc.isenabled()
            gc.disable()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0 and self._collects:
            gc.enable()
        compile_lock.release()


COMPILING = _Compiling()

BUILDING = threading.RLock()
"""Held while MLIR compiles a graph that has been captured: all that a compilation on another thread needs. Who wants both takes
COMPILING first. A fork waits for it, as the new process has no thread that would release it, or LLVM's own locks."""
os.register_at_fork(before=BUILDING.acquire, after_in_parent=BUILDING.release, after_in_child=BUILDING.release)
