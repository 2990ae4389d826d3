"""Evaluates sizes for a call, and finds the symbols that they depend on."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from .factors import Factor, Opaque, SizeSymbol
from .floats import FLOAT_OPS, ROUNDED
from .roots import root
from .size import Size, SizeLike, cancel, exact_quotient, factor_of, maximum, minimum


def typical(size: SizeLike) -> int:
    """Returns the value of a size in the call for which the graph was captured. Only choices about speed may depend on it."""
    return size if isinstance(size, int) else _value(size, lambda symbol: symbol.hint)


def evaluate(size: SizeLike, symbols: Mapping[str, int]) -> int:
    """Returns the value of a size. Raises KeyError for a symbol without a value."""
    return size if isinstance(size, int) else _value(size, lambda symbol: symbols[symbol.name])


def substituted(size: SizeLike, values: Mapping[str, SizeLike]) -> SizeLike:
    """Returns a size with other sizes in place of the symbols named in `values`."""
    return size if isinstance(size, int) else _value(size, lambda symbol: values.get(symbol.name, factor_of(symbol)), _SIZE_OPS)


def with_symbol(size: SizeLike, product: Size, symbol: Size) -> SizeLike:
    """Returns a size with a symbol in place of a product of symbols, such as the pixels of an image, wherever this is a factor."""
    if isinstance(size, int):
        return size
    ((wanted, _),) = product.terms
    out: SizeLike = 0
    for factors, k in size.terms:
        whole: SizeLike = k
        while (left := cancel(factors, wanted)) is not None:
            factors, whole = left, whole * symbol
        for f in factors:
            if isinstance(f, Opaque):
                whole = whole * apply_op(f.op, with_symbol(f.left, product, symbol), with_symbol(f.right, product, symbol))
            else:
                whole = whole * factor_of(f)
        out = out + whole
    return out


def float_of(op: str, left: SizeLike, right: SizeLike) -> Size:
    """Returns the result of an op of FLOAT_OPS on sizes or floats."""
    return factor_of(Opaque(op, left, right))


def rounded(op: str, value: SizeLike, _: SizeLike = 1) -> SizeLike:
    """Returns the size that an op of ROUNDED rounds a float to."""
    return factor_of(Opaque(op, value, 1)) if symbols_of(value) else ROUNDED[op](evaluate(value, {}), 1)


def apply_op(op: str, left: SizeLike, right: SizeLike) -> SizeLike:
    """Returns the result of the op of an opaque factor on two sizes."""
    found: SizeLike = _SIZE_OPS[op](left, right)
    return found


def compute_with(size: SizeLike, value_of: Callable[[SizeSymbol], Any], ops: "Mapping[str, Callable[[Any, Any], Any]]") -> Any:
    """Computes a size in numbers of another kind, which must have + and *.

    value_of  returns the number for a symbol
    ops       the functions for "//", "/", "%", "min", "max", "root" and the ops of floats.py
    """
    return size if isinstance(size, int) else _value(size, value_of, ops)


def is_symbolic(sizes: Any) -> bool:
    """Returns whether a size depends on symbols; for a tuple or list, whether any of its items does."""
    return any(map(is_symbolic, sizes)) if isinstance(sizes, tuple | list) else isinstance(sizes, Size)


def symbols_of(size: SizeLike) -> set[str]:
    """Returns the names of the symbols that a size depends on."""
    return {symbol.name for symbol in all_symbols(size)}


def all_symbols(size: Any) -> Iterator[SizeSymbol]:
    """Yields the symbols in a size, each as often as it is there."""
    for factor in (f for product, _ in size.terms for f in product) if isinstance(size, Size) else ():
        if isinstance(factor, SizeSymbol):
            yield factor
        else:
            yield from (*all_symbols(factor.left), *all_symbols(factor.right))


def symbol_name(size: SizeLike) -> str | None:
    """Returns the name of the symbol that a size is equal to; None if there is none.

    Solved equations (solved.py) may write the symbol s as n*((s + rest)/n) - rest, or as root(s + rest)*root(s + rest) - rest.
    """
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


def _value(size: Size, value_of: Callable[[SizeSymbol], Any], ops: "Mapping[str, Callable[[Any, Any], Any]] | None" = None) -> Any:
    """Computes a size, see `compute_with`; in integers without `ops`."""

    def factor(f: Factor) -> Any:
        """Evaluates a symbol or an opaque operation."""
        if isinstance(f, SizeSymbol):
            return value_of(f)
        left, right = (x if isinstance(x, int) else _value(x, value_of, ops) for x in (f.left, f.right))
        return (ops or _OPS)[f.op](left, right)

    return sum(k * math.prod(map(factor, factors)) for factors, k in size.terms)


# "/" is exact at all sizes that its kernel is for. At others it is rounded up, never down to 0, since something may divide by it.
_OPS: dict[str, Callable[[Any, Any], Any]] = {
    "//": lambda a, b: a // b, "/": lambda a, b: -(-a // b), "%": lambda a, b: a % b, "min": min, "max": max,
    "root": lambda a, _: root(a), **FLOAT_OPS, **ROUNDED,
}  # fmt: skip
_SIZE_OPS: dict[str, Callable[[Any, Any], Any]] = {
    **_OPS, "/": exact_quotient, "min": minimum, "max": maximum, **{op: partial(float_of, op) for op in FLOAT_OPS},
    **{op: partial(rounded, op) for op in ROUNDED},
}  # fmt: skip
