"""Evaluates sizes for a call, and finds the symbols that they depend on."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from .factors import Factor, Opaque, SizeSymbol
from .floats import FLOAT_OPS, ROUNDED
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


def float_of(op: str, left: SizeLike, right: SizeLike) -> Size:
    """Returns what an op of FLOAT_OPS makes of sizes or floats."""
    return factor_of(Opaque(op, left, right))


def rounded(op: str, value: SizeLike, _: SizeLike = 1) -> SizeLike:
    """Returns the size that an op of ROUNDED makes of a float."""
    return factor_of(Opaque(op, value, 1)) if symbols_of(value) else ROUNDED[op](evaluate(value, {}), 1)


def made(op: str, left: SizeLike, right: SizeLike) -> SizeLike:
    """Returns what the op of an opaque factor makes of other sizes."""
    found: SizeLike = _SIZE_OPS[op](left, right)
    return found


def computed(size: SizeLike, of: Callable[[SizeSymbol], Any], ops: "Mapping[str, Callable[[Any, Any], Any]]") -> Any:
    """Computes a size in another kind of number, which has + and *.

    of   returns a symbol's value
    ops  the functions for "//", "/", "%", "min", "max", "root" and those of floats.py
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
    with others, or as that sum's root times that, less the others."""
    if not isinstance(size, Size):
        return None
    ((f, *more), k), *others = size.terms
    if not others and not more and k == 1 and isinstance(f, SizeSymbol):
        return f.name
    for f in {f for factors, _ in size.terms for f in factors if isinstance(f, Opaque) and f.op in ("/", "root")}:
        by = factor_of(f) if f.op == "root" else f.right
        plain = size - factor_of(f) * by + f.left
        if isinstance(plain, Size) and not any(f in factors for factors, _ in plain.terms) and (name := symbol_name(plain)):
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
    "root": lambda a, _: root(a), **FLOAT_OPS, **ROUNDED,
}  # fmt: skip
_SIZE_OPS: dict[str, Callable[[Any, Any], Any]] = {
    **_OPS, "/": exactly, "min": least, "max": most, **{op: partial(float_of, op) for op in FLOAT_OPS},
    **{op: partial(rounded, op) for op in ROUNDED},
}  # fmt: skip
