"""Symbolic sizes: integer polynomials over the sizes that a call decides.

    parse("s0~8*s1~128 + 1")        # s0 and s1 are symbols, which were 8 and 128 when the graph was captured
    parse("s0~8*16") % 16           # 0: known for every value of s0
    parse("s0~8*16") > 16           # True: a symbol is at least 2

A constant size is a plain `int` everywhere. A `Size` takes part in arithmetic like one, with int and Size alike; quotients,
remainders, minima and maxima that are no polynomials become opaque factors. Comparisons are proofs: they hold for every value of
the symbols, or raise `Undecided`. A choice that is only about speed compares `typical` values instead.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from .factors import LEAST, Factor, Opaque, SizeSymbol, Terms, Undecided, positive, product

if TYPE_CHECKING:
    _Number = int  # a Size takes part in arithmetic like an int, and most code does not care which it is
else:
    _Number = object


@dataclass(frozen=True, eq=False)
class Size(_Number):
    """A sum of coefficients times products of factors; sorted, without zero coefficients, never constant."""

    terms: Terms

    @staticmethod
    def of(symbol: str, hint: int = LEAST, least: int = LEAST) -> "Size":
        """Returns the size that is one symbol."""
        return Size((((SizeSymbol(symbol, hint, least),), 1),))

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    @cached_property
    def _text(self) -> str:
        out = ""
        for factors, k in self.terms:
            parts = [f"({f})" if isinstance(f, Opaque) and f.op in "//%" else str(f) for f in factors]
            number = [str(abs(k))] if abs(k) != 1 or not parts else []
            out += (" - " if k < 0 else " + ") if out else ("-" if k < 0 else "")
            out += "*".join(number + parts)
        return out

    @property
    def is_opaque(self) -> bool:
        """Returns whether a quotient, remainder, minimum or maximum is a part of it."""
        return any(isinstance(f, Opaque) for factors, _ in self.terms for f in factors)

    def __hash__(self) -> int:
        return hash(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self._text == other._text

    def __bool__(self) -> bool:
        return True  # not known to be 0

    def __add__(self, other: "SizeLike") -> "SizeLike":
        return _sum(self, other)

    __radd__ = __add__

    def __neg__(self) -> "SizeLike":
        return self * -1

    def __sub__(self, other: "SizeLike") -> "SizeLike":
        return self + other * -1

    def __rsub__(self, other: int) -> "SizeLike":
        return self * -1 + other

    def __mul__(self, other: "SizeLike") -> "SizeLike":
        return _product(self, other)

    __rmul__ = __mul__

    def __divmod__(self, by: "SizeLike") -> "tuple[SizeLike, SizeLike]":
        return _divmod(self, by)

    def __rdivmod__(self, whole: int) -> "tuple[SizeLike, SizeLike]":
        return _divmod(whole, self)

    def __floordiv__(self, by: "SizeLike") -> "SizeLike":
        return _divmod(self, by)[0]

    def __rfloordiv__(self, whole: int) -> "SizeLike":
        return _divmod(whole, self)[0]

    def __mod__(self, by: "SizeLike") -> "SizeLike":
        return _divmod(self, by)[1]

    def __rmod__(self, whole: int) -> "SizeLike":
        return _divmod(whole, self)[1]

    def __lt__(self, other: "SizeLike") -> bool:
        return positive(other - self)

    def __gt__(self, other: "SizeLike") -> bool:
        return positive(self - other)

    def __le__(self, other: "SizeLike") -> bool:
        return not positive(self - other)

    def __ge__(self, other: "SizeLike") -> bool:
        return not positive(other - self)

    def __abs__(self) -> "SizeLike":
        return -self if self < 0 else self


if TYPE_CHECKING:
    SizeLike = int
else:
    SizeLike = int | Size


def typical(size: "SizeLike") -> int:
    """Returns the value of a size in the call for which the graph was captured: for choices that are only about speed."""
    return size if isinstance(size, int) else _value(size, lambda symbol: symbol.hint)


def evaluate(size: "SizeLike", symbols: Mapping[str, int]) -> int:
    """Returns the value of a size. Raises KeyError for a symbol without a value."""
    return size if isinstance(size, int) else _value(size, lambda symbol: symbols[symbol.name])


def is_symbolic(sizes: Any) -> bool:
    """Returns whether a size, or any of several, depends on the call."""
    return any(map(is_symbolic, sizes)) if isinstance(sizes, tuple | list) else isinstance(sizes, Size)


def symbols_of(size: "SizeLike") -> set[str]:
    """Returns the names of the symbols that a size depends on."""
    if isinstance(size, int):
        return set()
    found: set[str] = set()
    for factors, _ in size.terms:
        for f in factors:
            found |= {f.name} if isinstance(f, SizeSymbol) else symbols_of(f.left) | symbols_of(f.right)
    return found


def divisor(size: "SizeLike") -> int:
    """Returns a number that divides a size for every value of its symbols: the largest that its coefficients show; 0 for 0."""
    return math.gcd(*(k for _, k in _terms(size)))


def known_part(size: "SizeLike") -> int:
    """Returns the number that a size is the sum of and of products of symbols."""
    return next((k for factors, k in _terms(size) if not factors), 0)


def below(a: SizeLike, b: SizeLike) -> bool:
    """Returns whether a < b for every value of the symbols."""
    try:
        return a < b
    except Undecided:
        return False


def at_most(a: SizeLike, b: SizeLike) -> bool:
    """Returns whether a <= b for every value of the symbols."""
    try:
        return a <= b
    except Undecided:
        return False


def least(*sizes: "SizeLike") -> "SizeLike":
    """Returns the minimum of sizes, evaluated at the call where it is not known before."""
    return chosen("min", sizes)


def most(*sizes: "SizeLike") -> "SizeLike":
    """Returns the maximum of sizes, evaluated at the call where it is not known before."""
    return chosen("max", sizes)


def chosen(op: str, sizes: "tuple[SizeLike, ...]") -> "SizeLike":
    """Returns the minimum ("min") or maximum ("max") of sizes, opaque where it is not known before the call."""
    out = sizes[0]
    for size in sizes[1:]:
        if at_most(out, size) or at_most(size, out):
            out = size if at_most(out, size) == (op == "max") else out
        else:
            out = factor_of(Opaque(op, *sorted((out, size), key=_order)))
    return out


def _order(size: "SizeLike") -> tuple[bool, str]:
    return isinstance(size, Size), str(size)


def factor_of(f: Factor) -> Size:
    """Returns the size that is one factor."""
    return Size((((f,), 1),))


def _terms(size: "SizeLike") -> Terms:
    return size.terms if isinstance(size, Size) else (((), int(size)),)


def _normal(terms: list[tuple[tuple[Factor, ...], int]]) -> "SizeLike":
    total: dict[tuple[Factor, ...], int] = {}
    for factors, k in terms:
        total[factors] = total.get(factors, 0) + k
    kept = [(factors, k) for factors, k in total.items() if k]
    if all(not factors for factors, _ in kept):
        return kept[0][1] if kept else 0
    return Size(tuple(sorted(kept, key=lambda t: (-len(t[0]), [str(f) for f in t[0]]))))


# A graph's layouts and spaces are made of few sizes, again and again.
_KEPT = 1 << 14


@lru_cache(_KEPT)
def _sum(one: Size, other: "SizeLike") -> "SizeLike":
    return _normal([*one.terms, *_terms(other)])


@lru_cache(_KEPT)
def _product(one: Size, other: "SizeLike") -> "SizeLike":
    return _normal([(product(f, g), k * n) for f, k in one.terms for g, n in _terms(other)])


@lru_cache(_KEPT)
def _divmod(whole: "SizeLike", by: "SizeLike") -> "tuple[SizeLike, SizeLike]":
    """Returns quotient and remainder: by every term that the divisor divides exactly, and opaque for the rest."""
    if by == 0:
        raise ZeroDivisionError("a size divided by 0")
    quotient: int | Size = 0
    rest: int | Size = whole
    (factors, k), *more = _terms(by)
    if not more:
        for f, n in _terms(whole):
            left = _without(f, factors)
            if left is not None and n % k == 0:
                quotient = quotient + _normal([(left, n // k)])
        rest = whole - quotient * by
    elif whole == by:
        return 1, 0
    else:  # a divisor of several terms: long division by its leading term
        while isinstance(rest, Size):
            f, n = rest.terms[0]
            left = _without(f, factors)
            if left is None or n % k or len(quotient.terms if isinstance(quotient, Size) else ()) > 8:
                break
            step = _normal([(left, n // k)])
            quotient, rest = quotient + step, rest - step * by
        if isinstance(rest, Size):
            quotient, rest = 0, whole
    if isinstance(rest, int) and isinstance(by, int):
        return quotient + rest // by, rest % by
    if rest == 0 or (at_most(0, rest) and below(rest, by)):
        return quotient, rest
    part = factor_of(Opaque("//", rest, by))
    # what is rounded up to a multiple of a number is that number times a quotient: s + -s % 8 == -8 * (-s // 8)
    return quotient + part, rest - part * by if isinstance(by, int) else factor_of(Opaque("%", rest, by))


def _without(f: tuple[Factor, ...], taken: tuple[Factor, ...]) -> tuple[Factor, ...] | None:
    left = list(f)
    for x in taken:
        if x not in left:
            return None
        left.remove(x)
    return tuple(left)


def _value(size: Size, of: Callable[[SizeSymbol], int]) -> int:
    def factor(f: Factor) -> int:
        if isinstance(f, SizeSymbol):
            return of(f)
        left, right = (x if isinstance(x, int) else _value(x, of) for x in (f.left, f.right))
        return _OPS[f.op](left, right)

    return sum(k * math.prod(map(factor, factors)) for factors, k in size.terms)


_OPS: dict[str, Callable[[Any, Any], Any]] = {"//": lambda a, b: a // b, "%": lambda a, b: a % b, "min": min, "max": max}
