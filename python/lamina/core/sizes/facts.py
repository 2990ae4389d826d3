"""Facts about symbolic sizes, for reports: value at the traced call, range, place among the arguments."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

NamedSizes = tuple[tuple[str, int], ...]
"""Sizes by the names of their Dims, of symbols, or by place, "x, dimension 0"."""


@dataclass(frozen=True)
class SizeFacts:
    """A size that each call decides.

    name     its symbol
    typical  its value in the call for which the graph was compiled, at which times and bytes are given
    minimum  the smallest value that calls may have
    maximum  the largest one; None without a limit
    read     where a call brings it: "x, dimension 0"
    factor   divides it at every call, as a branch of the model has asked
    called   the name of its Dim; "" without one
    """

    name: str
    typical: int
    minimum: int
    maximum: int | None
    read: tuple[str, ...]
    factor: int = 1
    called: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which a user may refer to it."""
        return (self.name, *self.read, *filter(None, (self.called,)))

    @property
    def written(self) -> str:
        """The form in which options name it: "batch", or "{'x': {1: ...}}"."""
        name, _, d = self.read[0].partition(", dimension ")
        return self.called or (f"{{{name!r}: {{{d}: ...}}}}" if d else name)


@dataclass(frozen=True)
class SizeCondition:
    """A condition on sizes that a graph rests on: calls that break it are compiled again, or refused.

    text   "(dimension 1 of argument 'x') <= 20"
    where  the line that asked for it, "model.py:7"; "" if none is known
    code   that line
    by     the function that asked, where it is not the model's: "torch: infer_size"
    """

    text: str
    where: str = ""
    code: str = ""
    by: str = ""


def named_sizes(sizes: Any) -> NamedSizes | None:
    """Reads sizes as users write them, `{"batch": 4, "x": {1: 30}}`. Returns None for anything else."""
    if not isinstance(sizes, Mapping):
        return None
    pairs: list[tuple[Any, Any]] = []
    for name, value in sizes.items():
        dims = value.items() if isinstance(value, Mapping) else ((None, value),)
        pairs += [(name if d is None else f"{name}, dimension {d}", size) for d, size in dims]
    return tuple(pairs) if all(isinstance(name, str) and type(size) is int for name, size in pairs) else None


def values_of(wanted: NamedSizes, symbols: Iterable[SizeFacts]) -> dict[str, int]:
    """Returns the values of the symbols that are named, by symbol. Raises ValueError for two values of one size."""
    sizes, values = dict(wanted), {}
    for symbol in symbols:
        asked = {name: sizes[name] for name in symbol.names if name in sizes}
        if len(set(asked.values())) > 1:
            raise ValueError(f"these are one size: {', '.join(f'{name} = {size}' for name, size in asked.items())}")
        if asked:
            values[symbol.name] = next(iter(asked.values()))
    return values


def unknown_names(wanted: NamedSizes, symbols: Iterable[SizeFacts]) -> list[str]:
    """Returns the names that are none of these symbols'."""
    known = {name for symbol in symbols for name in symbol.names}
    return sorted(name for name, _ in wanted if name not in known)
