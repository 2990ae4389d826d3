"""Evaluates data of symbolic sizes for many calls: precomputes the parts that do not depend on sizes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from operator import itemgetter
from typing import Any, Generic, TypeVar

from ..sizes import Size, symbols_of
from ..sizes.text import FUNCTIONS, as_python

T = TypeVar("T")
Make = Callable[[Sequence[int]], Any]
"""Makes data of the values of all sizes in it."""


class Template(Generic[T]):
    """Data (tuples and frozen dataclasses) with sizes in it. Called with the values of the symbols, it returns the data with every
    size evaluated; parts without sizes are the same objects, and parts that are one object stay one."""

    def __init__(self, data: T) -> None:
        self._data = data
        self._numbers: dict[int | Size, int] = {}
        self._known: dict[int, Make | None] = {}
        found: set[str] = set()
        self._symbols = found
        self._make = self._of(data)
        self._names = sorted(found)
        text = "".join(f"{as_python(number)}, " for number in self._numbers)
        self._values: Callable[..., Sequence[int]] = eval(f"lambda {', '.join(self._names)}: ({text})", dict(FUNCTIONS))

    def __call__(self, symbols: Mapping[str, int]) -> T:
        """Returns the data for these values of its symbols."""
        if self._make is None:
            return self._data
        return self._make(self._values(*[symbols[name] for name in self._names]))

    def _of(self, data: Any) -> Make | None:
        """Returns a function that makes a part from the values of sizes; None if the part has no sizes."""
        if isinstance(data, Size):
            return itemgetter(self._number(data))
        if not isinstance(data, tuple) and _fields_of(data.__class__) is None:
            return None
        if id(data) not in self._known:
            make = self._tuple(data) if isinstance(data, tuple) else self._object(data)
            self._known[id(data)] = None if make is None else _once(make)
        return self._known[id(data)]

    def _tuple(self, data: tuple[Any, ...]) -> Make | None:
        if any(isinstance(x, Size) for x in data) and all(type(x) is int or isinstance(x, Size) for x in data):
            places = [self._number(x) for x in data]
            return itemgetter(*places) if len(places) > 1 else lambda values, at=places[0]: (values[at],)  # type: ignore[misc]
        makes = [(i, make) for i, x in enumerate(data) if (make := self._of(x)) is not None]
        if not makes:
            return None
        first = list(data)

        def evaluate(values: Sequence[int]) -> tuple[Any, ...]:
            """Builds the tuple for the values of the symbols."""
            parts = first.copy()
            for i, make in makes:
                parts[i] = make(values)
            return tuple(parts)

        return evaluate

    def _object(self, data: Any) -> Make | None:
        kind, first = data.__class__, {name: getattr(data, name) for name in _fields_of(data.__class__) or ()}
        makes = [(name, make) for name, x in first.items() if (make := self._of(x)) is not None]
        if not makes:
            return None

        def evaluate(values: Sequence[int]) -> Any:
            """Builds the object for the values of the symbols."""
            new = object.__new__(kind)  # the fields are valid as they are: `replace` would take ten times as long
            held = new.__dict__
            held.update(first)
            for name, make in makes:
                held[name] = make(values)
            return new

        return evaluate

    def _number(self, x: "int | Size") -> int:
        self._symbols.update(symbols_of(x))
        return self._numbers.setdefault(x, len(self._numbers))


def _once(make: Make) -> Make:
    """Returns a function like `make` that keeps its last result, since parts that occur in several places are made several
    times."""
    last: tuple[Sequence[int] | None, Any] = (None, None)

    def evaluate(values: Sequence[int]) -> Any:
        """Returns the last result if it was built for the same values, else builds a new one."""
        nonlocal last
        kept = last
        if kept[0] is not values:
            kept = last = (values, make(values))
        return kept[1]

    return evaluate


@cache
def _fields_of(kind: type[Any]) -> tuple[str, ...] | None:
    """Returns the names of a dataclass's fields; None for other types, and for sizes and symbols."""
    return tuple([field.name for field in fields(kind)]) if is_dataclass(kind) else None
