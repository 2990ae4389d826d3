"""The class Size: integer polynomials of symbols, which are sizes that differ from call to call.

    parse("s0~8*s1~128 + 1")        # s0 and s1 are symbols, which were 8 and 128 when the graph was captured
    parse("s0~8*16") % 16           # 0: known for every value of s0
    parse("s0~8*16") > 16           # True: a symbol is at least 2

A constant size is a plain `int` everywhere. A `Size` takes part in arithmetic like one, with int and Size alike; quotients,
remainders, minima and maxima that are not polynomials become opaque factors. Comparisons are proofs: they hold for every value of
the symbols, or raise `Undecided`. A choice that is only about speed compares `typical` values instead (values.py).
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from .factors import LEAST, Factor, Opaque, SizeSymbol, Terms, Undecided, is_positive, multiply, one_symbol

if TYPE_CHECKING:
    _Number = int  # a Size takes part in arithmetic like an int, and most code does not care which it is
else:
    _Number = object


@dataclass(frozen=True, eq=False)
class Size(_Number):
    """A sum of coefficients times products of factors; sorted, without zero coefficients, never constant."""

    terms: Terms

    @staticmethod
    def of(symbol: str, hint: int = LEAST, minimum: int = LEAST, maximum: int | None = None) -> "Size":
        """Returns the size that is one symbol."""
        return Size((((SizeSymbol(symbol, hint, minimum, maximum),), 1),))

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    @cached_property
    def _text(self) -> str:
        out = ""
        for factors, k in self.terms:
            parts = [f"({f})" if isinstance(f, Opaque) and f.op in ("//", "/", "%") else str(f) for f in factors]
            number = [str(abs(k))] if abs(k) != 1 or not parts else []
            out += (" - " if k < 0 else " + ") if out else ("-" if k < 0 else "")
            out += "*".join(number + parts)
        return out

    @property
    def is_opaque(self) -> bool:
        """Whether a quotient, remainder, minimum or maximum is a part of it."""
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
        return is_positive(other - self)

    def __gt__(self, other: "SizeLike") -> bool:
        return is_positive(self - other)

    def __le__(self, other: "SizeLike") -> bool:
        return not is_positive(self - other)

    def __ge__(self, other: "SizeLike") -> bool:
        return not is_positive(other - self)

    def __abs__(self) -> "SizeLike":
        return -self if self < 0 else self


if TYPE_CHECKING:
    SizeLike = int
else:
    SizeLike = int | Size


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


def minimum(*sizes: "SizeLike") -> "SizeLike":
    """Returns the minimum of sizes, evaluated at the call where it is not known before."""
    return extremum("min", sizes)


def maximum(*sizes: "SizeLike") -> "SizeLike":
    """Returns the maximum of sizes, evaluated at the call where it is not known before."""
    return extremum("max", sizes)


def exact_quotient(whole: "SizeLike", by: "SizeLike") -> "SizeLike":
    """Returns the quotient of a size that another one divides at every call. It has the form of its negative's, whose sign is
    another."""
    quotient, rest = _divmod(whole, by)
    if rest == 0:
        return quotient
    if isinstance(rest, int) and isinstance(by, int):
        raise ValueError(f"{by} does not divide {whole}")
    if isinstance(whole, Size) and isinstance(by, int) and (common := math.gcd(divisor(whole), by)) > 1:
        return exact_quotient(whole // common, by // common)
    (factors, k), *more = _terms(whole)
    if k < 0:
        return -exact_quotient(-whole, by)
    f = factors[0] if len(factors) == 1 and k == 1 and not more else None
    if isinstance(f, Opaque) and f.op == "/":
        return exact_quotient(f.left, f.right * by)
    return factor_of(Opaque("/", whole, by))


def extremum(op: str, sizes: "tuple[SizeLike, ...]") -> "SizeLike":
    """Returns the minimum ("min") or maximum ("max") of sizes, opaque where it is not known before the call."""
    out = sizes[0]
    for size in sizes[1:]:
        if at_most(out, size) or at_most(size, out):
            out = size if at_most(out, size) == (op == "max") else out
        else:
            out = _opaque_choice(op, out, size)
    return out


def _opaque_choice(op: str, a: "SizeLike", b: "SizeLike") -> "SizeLike":
    """Returns a minimum or maximum that the call decides. What is missing to a number is written by their minimum: so the sum of
    max(0, 8 - n) and min(8, n) is 8."""
    difference = b if isinstance(a, int) and a == 0 else a if isinstance(b, int) and b == 0 else None
    if isinstance(difference, Size) and all((k > 0) == (not factors) for factors, k in difference.terms):
        whole = known_part(difference)
        smaller = extremum("min", (whole, whole - difference))
        return whole - smaller if op == "max" else smaller - (whole - difference)
    return factor_of(Opaque(op, *sorted((a, b), key=_order)))


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
    return _normal([(multiply(f, g), k * n) for f, k in one.terms for g, n in _terms(other)])


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
            left = cancel(f, factors)
            if left is not None and (n % k == 0 or not f):  # of a number, what is left is from 0 to k - 1
                quotient = quotient + _normal([(left, n // k)])
        rest = whole - quotient * by
    elif whole == by:
        return 1, 0
    else:  # a divisor of several terms: long division by its leading term
        while isinstance(rest, Size):
            f, n = rest.terms[0]
            left = cancel(f, factors)
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
    part = factor_of(_opaque_quotient(rest, by))
    # what is rounded up to a multiple of a size is that size times a quotient: s + -s % 8 == -8 * (-s // 8)
    return quotient + part, rest - part * by if isinstance(by, int) or one_symbol(by) else factor_of(Opaque("%", rest, by))


def _opaque_quotient(whole: "SizeLike", by: "SizeLike") -> Opaque:
    """Returns a quotient that is not a polynomial, by one number: (2*s + 2)//8 is (s + 1)//4, and (s//4 + 1)//2 is (s + 4)//8."""
    if not isinstance(by, int) or not isinstance(whole, Size):
        return Opaque("//", whole, by)
    if (common := math.gcd(divisor(whole), by)) > 1:
        return _opaque_quotient(whole // common, by // common)
    plus = known_part(whole)
    terms = _terms(whole - plus)
    (f, *more), k = terms[0]
    if len(terms) == 1 and k == 1 and not more and isinstance(f, Opaque) and f.op == "//" and isinstance(f.right, int):
        return _opaque_quotient(f.left + plus * f.right, by * f.right)
    return Opaque("//", whole, by)


def cancel(f: tuple[Factor, ...], removed: tuple[Factor, ...]) -> tuple[Factor, ...] | None:
    """Returns the factors that are left of a product without those of another; None if it lacks one of these."""
    left = list(f)
    for x in removed:
        if x not in left:
            return None
        left.remove(x)
    return tuple(left)
