"""Symbolic sizes: a number, or a linear sum of named size symbols.

    Size.of("batch") * 768 + 64        # 768*batch + 64
    evaluate(that, {"batch": 2})       # 1600

A constant size is a plain `int` everywhere, in Python and in JSON, so a program without symbols holds numbers only. Products of two
symbols cannot be expressed: a buffer may have one symbolic dimension.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Size:
    """`const` plus the sum of coefficient * symbol; `terms` are sorted by symbol and have no zero coefficients."""

    const: int
    terms: tuple[tuple[str, int], ...]

    @staticmethod
    def of(symbol: str) -> "Size":
        """Returns the size that is one symbol."""
        return Size(0, ((symbol, 1),))

    def __add__(self, other: "int | Size") -> "int | Size":
        total = dict(self.terms)
        if isinstance(other, Size):
            for symbol, factor in other.terms:
                total[symbol] = total.get(symbol, 0) + factor
        return _normal(self.const + (other.const if isinstance(other, Size) else other), total)

    __radd__ = __add__

    def __mul__(self, factor: int) -> "int | Size":
        return _normal(self.const * factor, {symbol: k * factor for symbol, k in self.terms})

    __rmul__ = __mul__

    def __str__(self) -> str:
        parts = [symbol if k == 1 else f"{k}*{symbol}" for symbol, k in self.terms]
        return " + ".join(parts + ([str(self.const)] if self.const else []))


SizeLike = int | Size


def _normal(const: int, terms: dict[str, int]) -> SizeLike:
    kept = tuple(sorted((symbol, k) for symbol, k in terms.items() if k))
    return Size(const, kept) if kept else const


def evaluate(size: SizeLike, symbols: Mapping[str, int]) -> int:
    """Returns the value of a size. Raises KeyError for a symbol without a value."""
    if isinstance(size, int):
        return size
    return size.const + sum(k * symbols[symbol] for symbol, k in size.terms)


def size_to_json(size: SizeLike) -> Any:
    """Returns a size as JSON data: a number, or its constant and terms."""
    return size if isinstance(size, int) else {"const": size.const, "terms": dict(size.terms)}


def size_from_json(data: Any) -> SizeLike:
    """Reads what `size_to_json` made. Raises TypeError or KeyError for other data."""
    if isinstance(data, int) and not isinstance(data, bool):
        return data
    const, terms = data["const"], data["terms"]
    if not all(type(number) is int for number in (const, *terms.values())):
        raise TypeError(f"{data!r} is no size")
    return _normal(const, terms)
