"""What sizes are at a call, and which symbols they depend on."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from .factors import Factor, Opaque, SizeSymbol
from .roots import root
from .size import Size, SizeLike, exactly, factor_of, least, most


def typical(size: SizeLike) -> int:
    """Returns the value of a size in the call for which the graph was captured: for choices that are only about speed."""
    return size if isinstance(size, int) else _value(size, lambda symbol: symbol.hint)


def evaluate(size: SizeLike, symbols: Mapping[str, int]) -> int:
    """Returns the value of a size. Raises KeyError for a symbol without a value."""
    return size if isinstance(size, int) else _value(size, lambda symbol: symbols[symbol.name])


def substituted(size: SizeLike, values: Mapping[str, SizeLike]) -> SizeLike:
    """Returns a size with other sizes in place of the symbols named in `values`."""
    return size if isinstance(size, int) else _value(size, lambda symbol: values.get(symbol.name, factor_of(symbol)), _SIZE_OPS)


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
    """Returns the name of the symbol that a size is, which may be written as a divisor times the quotient, or as its root times
    that; None for others."""
    if not isinstance(size, Size) or len(size.terms) > 1:
        return None
    ((factors, k),) = size.terms
    if k == 1 and len(factors) == 1 and isinstance(factors[0], SizeSymbol):
        return factors[0].name
    opaque = [f for f in factors if isinstance(f, Opaque)]
    whole = (
        f.left for f in opaque if size == factor_of(f) * (factor_of(f) if f.op == "root" else f.right) and f.op in ("/", "root")
    )
    return next(map(symbol_name, whole), None)


def _value(size: Size, of: Callable[[SizeSymbol], Any], ops: "Mapping[str, Callable[[Any, Any], Any]] | None" = None) -> Any:
    def factor(f: Factor) -> Any:
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
