"""Keeps the frames of deep calls in one piece of memory.

CPython keeps the frames of Python functions in chunks of 16 KiB, which it maps as the stack grows and unmaps as it shrinks. Tracing
and compilation are hundreds of calls deep, and a loop whose calls cross the end of a chunk maps and unmaps one each time, for 5 us.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_SLOTS = 70_000
"""A frame of so many words takes a chunk of 1 MiB, as the size of a chunk is a power of two, and leaves 480 KiB to the frames
below, enough for two thousand."""


def in_one_chunk(function: Callable[P, T]) -> Callable[P, T]:
    """Returns the function, called from a frame that makes room for the frames of all that it calls."""

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        """Calls the function."""
        return function(*args, **kwargs)

    call.__code__ = call.__code__.replace(co_stacksize=_SLOTS)
    return wraps(function)(call)
