"""One compilation at a time in a process: tracing patches torch, and MLIR's Python bindings keep state that threads would break.

The lock is Dynamo's own, held already where Dynamo calls the backend. Beside one of ours, two threads could wait for each other for
ever. While we hold it, Python looks for no reference cycles: a compilation makes hundreds of thousands of objects that live until
its end, and to search these and all else that the process has loaded can take a tenth of its time.
"""

import gc

from torch._dynamo.convert_frame import compile_lock


class _Compiling:
    """`with COMPILING:` is reentrant."""

    def __init__(self) -> None:
        self._depth, self._collects = 0, False  # belong to the thread that holds the lock

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
