"""One compilation at a time in a process: tracing patches torch, and MLIR's Python bindings keep state that threads would break.

The lock is Dynamo's own, held already where Dynamo calls the backend. Beside one of ours, two threads could wait for each other for
ever.
"""

from torch._dynamo.convert_frame import compile_lock

COMPILING = compile_lock
"""Reentrant."""
