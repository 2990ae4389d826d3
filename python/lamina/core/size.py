"""Symbolic sizes: integer polynomials over the sizes that a call decides.

    Size.parse("s0~8*s1~128 + 1")        # s0 and s1 are symbols, which were 8 and 128 when the graph was captured
    Size.parse("s0~8*16") % 16           # 0: known for every value of s0
    Size.parse("s0~8*16") > 16           # True: a symbol is at least 2

A constant size is a plain `int` everywhere. A `Size` takes part in arithmetic like one, with int and Size alike; quotients,
remainders, minima and maxima that are no polynomials become opaque factors. Comparisons are proofs: they hold for every value of
the symbols, or raise `Undecided`. A choice that is only about speed compares `typical` values instead.
"""

import ast
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

LEAST = 2
"""The least value of a symbol: graphs are captured apart for sizes 0 and 1."""


class Undecided(ValueError):
    """Raised for a comparison that holds for some values of the symbols only."""


@dataclass(frozen=True)
class Symbol:
    """A size that each call decides, and its value (`hint`) in the call for which the graph was captured."""

    name: str
    hint: int

    def __str__(self) -> str:
        return f"{self.name}~{self.hint}"


@dataclass(frozen=True)
class Opaque:
    """A quotient ("//"), remainder ("%"), "min" or "max" of two sizes that is no polynomial."""

    op: str
    left: "SizeLike"
    right: "SizeLike"

    def __str__(self) -> str:
        if self.op in ("//", "%"):
            return f"({self.left}){self.op}({self.right})"
        return f"{self.op}({self.left}, {self.right})"


Factor = Symbol | Opaque
Terms = tuple[tuple[tuple[Factor, ...], int], ...]


if TYPE_CHECKING:
    _Number = int  # a Size takes part in arithmetic like an int, and most code does not care which it is
else:
    _Number = object


@dataclass(frozen=True, eq=False)
class Size(_Number):
    """A sum of coefficients times products of factors; sorted, without zero coefficients, never constant."""

    terms: Terms

    @staticmethod
    def of(symbol: str, hint: int = LEAST) -> "Size":
        """Returns the size that is one symbol."""
        return Size((((Symbol(symbol, hint),), 1),))

    @staticmethod
    def parse(text: str) -> "SizeLike":
        """Reads the text of a size, as `str` writes it. Raises ValueError for any other text."""
        return _parse(text)

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

    def __hash__(self) -> int:
        return hash(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self._text == other._text

    def __bool__(self) -> bool:
        return True  # not known to be 0

    def __add__(self, other: "SizeLike") -> "SizeLike":
        return _normal([*self.terms, *_terms(other)])

    __radd__ = __add__

    def __neg__(self) -> "SizeLike":
        return self * -1

    def __sub__(self, other: "SizeLike") -> "SizeLike":
        return self + other * -1

    def __rsub__(self, other: int) -> "SizeLike":
        return self * -1 + other

    def __mul__(self, other: "SizeLike") -> "SizeLike":
        return _normal([(_product(f, g), k * n) for f, k in self.terms for g, n in _terms(other)])

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
        return _positive(other - self)

    def __gt__(self, other: "SizeLike") -> bool:
        return _positive(self - other)

    def __le__(self, other: "SizeLike") -> bool:
        return not _positive(self - other)

    def __ge__(self, other: "SizeLike") -> bool:
        return not _positive(other - self)

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
            found |= {f.name} if isinstance(f, Symbol) else symbols_of(f.left) | symbols_of(f.right)
    return found


def divisor(size: "SizeLike") -> int:
    """Returns a number that divides a size for every value of its symbols: the largest that its coefficients show; 0 for 0."""
    return math.gcd(*(k for _, k in _terms(size)))


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
    return _chosen("min", sizes)


def most(*sizes: "SizeLike") -> "SizeLike":
    """Returns the maximum of sizes, evaluated at the call where it is not known before."""
    return _chosen("max", sizes)


def _chosen(op: str, sizes: "tuple[SizeLike, ...]") -> "SizeLike":
    out = sizes[0]
    for size in sizes[1:]:
        try:
            out = (min if op == "min" else max)(out, size)
        except Undecided:
            out = _factor(Opaque(op, out, size))
    return out


def _factor(f: Factor) -> Size:
    return Size((((f,), 1),))


def _terms(size: "SizeLike") -> Terms:
    return size.terms if isinstance(size, Size) else (((), int(size)),)


def _product(f: tuple[Factor, ...], g: tuple[Factor, ...]) -> tuple[Factor, ...]:
    return tuple(sorted((*f, *g), key=str))


def _normal(terms: list[tuple[tuple[Factor, ...], int]]) -> "SizeLike":
    total: dict[tuple[Factor, ...], int] = {}
    for factors, k in terms:
        total[factors] = total.get(factors, 0) + k
    kept = [(factors, k) for factors, k in total.items() if k]
    if all(not factors for factors, _ in kept):
        return kept[0][1] if kept else 0
    return Size(tuple(sorted(kept, key=lambda t: (-len(t[0]), [str(f) for f in t[0]]))))


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
    return quotient + _factor(Opaque("//", rest, by)), _factor(Opaque("%", rest, by))


def _without(f: tuple[Factor, ...], taken: tuple[Factor, ...]) -> tuple[Factor, ...] | None:
    left = list(f)
    for x in taken:
        if x not in left:
            return None
        left.remove(x)
    return tuple(left)


def _positive(difference: "SizeLike") -> bool:
    """Returns whether a difference is above 0 for all values of the symbols (True) or for none (False); raises Undecided else."""
    if isinstance(difference, int):
        return difference > 0
    low, high = _bounds(difference)
    if low > 0:
        return True
    if high <= 0:
        return False
    raise Undecided(f"the sign of {difference} depends on the call")


@lru_cache(4096)
def _bounds(size: "SizeLike") -> tuple[float, float]:
    """Returns bounds of a size: each factor is written as its least value plus something that is not negative."""
    if isinstance(size, int):
        return size, size
    total: dict[tuple[Factor, ...], float] = {}
    for factors, k in size.terms:
        parts: dict[tuple[Factor, ...], float] = {(): k}
        for f in factors:
            low, _ = _range(f)
            if low == -math.inf:
                return -math.inf, math.inf
            grown: dict[tuple[Factor, ...], float] = {}
            for key, v in parts.items():
                grown[key] = grown.get(key, 0) + v * low
                grown[_product(key, (f,))] = grown.get(_product(key, (f,)), 0) + v
            parts = grown
        for key, v in parts.items():
            total[key] = total.get(key, 0) + v
    low = high = total.pop((), 0)
    for factors, k in total.items():
        if k:
            reach = math.prod(h - lo for lo, h in map(_range, factors))
            low, high = (low, high + k * reach) if k > 0 else (low + k * reach, high)
    return low, high


def _range(f: Factor) -> tuple[float, float]:
    """Returns the least and the largest value of a factor."""
    if isinstance(f, Symbol):
        return LEAST, math.inf
    (a, b), (c, d) = _bounds(f.left), _bounds(f.right)
    if f.op == "min":
        return min(a, c), min(b, d)
    if f.op == "max":
        return max(a, c), max(b, d)
    if f.op == "%":
        return (0, d - 1) if c > 0 else (-math.inf, math.inf)
    if c <= 0 or a == -math.inf:
        return -math.inf, math.inf
    ends = [0 if y == math.inf else x // y for x in (a, b) if x != math.inf for y in (c, d)]
    return min(0 if a >= 0 and d == math.inf else math.inf, *ends), math.inf if b == math.inf else max(ends)


def _value(size: Size, of: Callable[[Symbol], int]) -> int:
    def factor(f: Factor) -> int:
        if isinstance(f, Symbol):
            return of(f)
        left, right = (x if isinstance(x, int) else _value(x, of) for x in (f.left, f.right))
        return _OPS[f.op](left, right)

    return sum(k * math.prod(map(factor, factors)) for factors, k in size.terms)


_OPS: dict[str, Callable[[Any, Any], Any]] = {"//": lambda a, b: a // b, "%": lambda a, b: a % b, "min": min, "max": max}
_SYMBOL = re.compile(r"([A-Za-z_]\w*)~(\d+)")
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b, ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}  # fmt: skip


@lru_cache(65536)
def _parse(text: str) -> "SizeLike":
    def read(node: ast.expr) -> int | Size:
        match node:
            case ast.Constant(value=int() as value):
                return value
            case ast.Name(id=name):
                symbol, _, hint = name.rpartition("_")
                return Size.of(symbol, int(hint))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -read(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                result: int | Size = _BINARY[type(op)](read(left), read(right))
                return result
            case ast.Call(func=ast.Name(id="min" | "max" as name), args=[one, other]):
                return _chosen(name, (read(one), read(other)))
        raise ValueError(f"{text!r} is no size")

    try:
        return read(ast.parse(_SYMBOL.sub(r"\1_\2", text), mode="eval").body)
    except SyntaxError as error:
        raise ValueError(f"{text!r} is no size") from error


def size_to_json(size: "SizeLike") -> Any:
    """Returns a size as JSON data: a number, or its text."""
    return size if isinstance(size, int) else str(size)


def size_from_json(data: Any) -> "SizeLike":
    """Reads what `size_to_json` made. Raises TypeError or ValueError for other data."""
    if type(data) is int:
        return data
    if not isinstance(data, str):
        raise TypeError(f"{data!r} is no size")
    return _parse(data)
