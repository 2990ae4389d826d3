"""Evaluates sizes for a call, and finds the symbols that they depend on."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from .factors import Factor, Opaque, SizeSymbol
from .roots import root
from .size import Size, SizeLike, exactly, factor_of, known_part, least, most


def typical(size: SizeLike) -> int:
    """Returns the value of a size in the call for which the graph was captured: for choices that are only about speed."""
    return size if isinstance(size, int) else _value(size, lambda symbol: symbol.hint)


def evaluate(size: SizeLike, symbols: Mapping[str, int]) -> int:
    """Returns the value of a size. Raises KeyError for a symbol without a value."""
    return size if isinstance(size, int) else _value(size, lambda symbol: symbols[symbol.name])


def substituted(size: SizeLike, values: Mapping[str, SizeLike]) -> SizeLike:
    """Returns a size with other sizes in place of the symbols named in `values`."""
    return size if isinstance(size, int) else _value(size, lambda symbol: values.get(symbol.name, factor_of(symbol)), _SIZE_OPS)


def computed(size: SizeLike, of: Callable[[SizeSymbol], Any], ops: "Mapping[str, Callable[[Any, Any], Any]]") -> Any:
    """Computes a size in another kind of number, which has + and *.

    of   returns a symbol's value
    ops  the functions for "//", "/", "%", "min", "max" and "root"
    """
    return size if isinstance(size, int) else _value(size, of, ops)


def is_symbolic(sizes: Any) -> bool:
    """Returns whether a size, or any of several, depends on the call."""
    return any(map(is_symbolic, sizes)) if isinstance(sizes, tuple | list) else isinstance(sizes, Size)


def symbols_of(size: SizeLike) -> set[str]:
    """Returns the names of the symbols that a size depends on."""
    if isinstance(size, int):
        return set()
    found: set[str] = set()
    for factors, _ in size.terms:
        for f in factors:
            found |= {f.name} if isinstance(f, SizeSymbol) else symbols_of(f.left) | symbols_of(f.right)
    return found


def symbol_name(size: SizeLike) -> str | None:
    """Returns the name of the symbol that a size is; None for others. It may be written as a divisor times the quotient of its sum
    with a number, or as that sum's root times that, less the number."""
    plus = known_part(size)
    rest = size - plus
    if not isinstance(rest, Size) or len(rest.terms) > 1:
        return None
    ((factors, k),) = rest.terms
    if k == 1 and len(factors) == 1 and isinstance(factors[0], SizeSymbol):
        return None if plus else factors[0].name
    for f in factors:
        if isinstance(f, Opaque) and f.op in ("/", "root"):
            by = factor_of(f) if f.op == "root" else f.right
            if factor_of(f) * by == rest and (name := symbol_name(f.left + plus)):
                return name
    return None


def _value(size: Size, of: Callable[[SizeSymbol], Any], ops: "Mapping[str, Callable[[Any, Any], Any]] | None" = None) -> Any:
    def factor(f: Factor) -> Any:
        """Evaluates a symbol or an opaque operation."""
        if isinstance(f, SizeSymbol):
            return of(f)
        left, right = (x if isinstance(x, int) else _value(x, of, ops) for x in (f.left, f.right))
        return (ops or _OPS)[f.op](left, right)

    return sum(k * math.prod(map(factor, factors)) for factors, k in size.terms)


# A quotient without remainder is rounded up where it has one, at sizes that its kernel is not for: others may divide by it.
_OPS: dict[str, Callable[[Any, Any], Any]] = {
    "//": lambda a, b: a // b, "/": lambda a, b: -(-a // b), "%": lambda a, b: a % b, "min": min, "max": max,
    "root": lambda a, _: root(a),
}  # fmt: skip
_SIZE_OPS = {**_OPS, "/": exactly, "min": least, "max": most}
