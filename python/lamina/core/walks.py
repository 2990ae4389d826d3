"""Walks graphs of hashable nodes, without recursion: chains may be longer than the stack."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def reachable(starts: Iterable[T], following: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """Yields the starts and all that follows from them, each once, depth first. What follows is asked for after a node was
    yielded."""
    stack = list(dict.fromkeys(starts))
    seen = set(stack)
    while stack:
        yield (x := stack.pop())
        for y in following(x):
            if y not in seen:
                seen.add(y)
                stack.append(y)


def operands_first(starts: Iterable[T], operands: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """Yields the starts and all that they are computed from, each once, after what it is computed from."""
    done: set[T] = set()
    stack = [(x, False) for x in reversed(list(starts))]
    while stack:
        x, ready = stack.pop()
        if x in done:
            continue
        if ready:
            done.add(x)
            yield x
        else:
            stack.append((x, True))
            stack.extend((y, False) for y in reversed(list(operands(x))) if y not in done)
