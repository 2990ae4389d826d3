"""Memoized recursion over chains of any length, in a bounded part of Python's stack."""

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_DEEPEST = 24  # nested calls before the memo unwinds and starts over from the key that it has reached


class _TooDeep(Exception):
    """Unwinds to the outermost call, which runs `compute` for `key` first and then starts over."""

    def __init__(self, key: tuple, compute: Callable[[], Any]) -> None:
        super().__init__("too deep")
        self.key, self.compute = key, compute


class DeepMemo(Generic[T]):
    """Results of functions that call each other through `get`, by key. Where calls nest too deep, the outermost one computes the
    innermost key by itself and then starts over. What that raises is raised where the result is asked for, as callers may catch
    it."""

    def __init__(self) -> None:
        self._known: dict[tuple, T] = {}
        self._raised: dict[tuple, Exception] = {}
        self._depth = 0

    def __iter__(self) -> Iterator[tuple]:
        return iter(self._known)

    def get(self, key: tuple, compute: Callable[[], T]) -> T:
        """Returns the result of `compute`, which is called once for each key, unless it is unwound."""
        result = self._known.get(key)
        if result is not None:
            return result
        if key in self._raised:
            raise self._raised[key]
        if self._depth == _DEEPEST:
            raise _TooDeep(key, compute)
        if self._depth == 0:
            return self._from_the_top(key, compute)
        self._depth += 1
        try:
            result = self._known[key] = compute()
        finally:
            self._depth -= 1
        return result

    def _from_the_top(self, key: tuple, compute: Callable[[], T]) -> T:
        pending = [(key, compute)]
        try:
            while pending:
                self._depth = 1
                now, make = pending[-1]
                try:
                    self._known[now] = make()
                    pending.pop()
                except _TooDeep as deep:
                    pending.append((deep.key, deep.compute))
                except Exception as error:
                    if len(pending) == 1:
                        raise
                    self._raised[now] = error
                    pending.pop()
        finally:
            self._depth = 0
        return self._known[key]
