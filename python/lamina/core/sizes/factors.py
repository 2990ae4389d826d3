"""The factors of symbolic sizes, and bounds of products of them."""

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .floats import FLOAT_OPS, ROUNDED, range_of

LEAST = 2
"""The least value of a symbol for a size of an argument: sizes 0 and 1 have graphs of their own."""
LOWEST = -(2**63)
"""The least value of a symbol for an int argument below 0."""


_DEEPEST = 3  # opaque factors that a proof replaces
_FAR = 1 << 20  # from the least value of a symbol, where a proof is tested
_EXACT: dict[str, Callable[[int, int], int]] = {"//": operator.floordiv, "%": operator.mod, "min": min, "max": max}


class Undecided(ValueError):
    """Raised for a comparison that holds for some values of the symbols only."""


@dataclass(frozen=True)
class SizeSymbol:
    """A size that each call decides, or an int argument, which may be below 0: its value (`hint`) in the call for which the graph
    was captured, and its least and largest values; most None: it has no limit.

    Its text is "s0~8", with ">=0" where the least value is not LEAST, as an int argument may be 0 or 1, and with "<=64" where there
    is a largest one, as in a kernel for a range of sizes.
    """

    name: str
    hint: int
    minimum: int = LEAST
    maximum: int | None = None

    def __str__(self) -> str:
        low = f">={self.minimum}" if self.minimum != LEAST else ""
        return f"{self.name}~{self.hint}{low}" + (f"<={self.maximum}" if self.maximum is not None else "")


@dataclass(frozen=True)
class Opaque:
    """A quotient ("//"), remainder ("%"), "min" or "max" of two sizes that is not a polynomial; "/" is a quotient without
    remainder at any call, "root" the root of a size, rounded down (to the right is 2). Or a float made of sizes, or one that is
    rounded (floats.py)."""

    op: str
    left: Any
    right: Any

    def __str__(self) -> str:
        if self.op in ("//", "/", "%"):
            return f"({self.left}){self.op}({self.right})"
        return f"{self.op}({self.left}, {self.right})"


Factor = SizeSymbol | Opaque
Terms = tuple[tuple[tuple[Factor, ...], int], ...]


def multiply(f: tuple[Factor, ...], g: tuple[Factor, ...]) -> tuple[Factor, ...]:
    """Returns the factors of a product, sorted by their text."""
    return tuple(sorted((*f, *g), key=str))


def is_positive(difference: Any) -> bool:
    """Returns whether a difference is above 0 for all values of the symbols (True) or for none (False); raises Undecided else."""
    if isinstance(difference, int):
        return difference > 0
    if _is_positive(difference, _DEEPEST):
        return True
    if _is_positive(1 - difference, _DEEPEST):
        return False
    raise Undecided(f"the sign of {difference} depends on the call")


@lru_cache(4096)
def _is_positive(size: Any, depth: int) -> bool:
    """Returns whether a size is shown to be above 0: by its bounds, or by those of what it is at least."""
    if isinstance(size, int):
        return size > 0
    if _is_refuted(size):
        return False
    return _bounds(size)[0] > 0 or (depth > 0 and any(_is_positive(low, depth - 1) for low in _lower(size)))


@lru_cache(4096)
def _is_refuted(size: Any) -> bool:
    """Returns whether a size is at most 0 for some values of its symbols: a search for a proof of the contrary is in vain."""
    samples: tuple[Callable[[SizeSymbol], int], ...] = (
        lambda symbol: symbol.minimum,
        lambda symbol: max(symbol.minimum, symbol.hint if symbol.maximum is None else min(symbol.hint, symbol.maximum)),
        lambda symbol: symbol.minimum + _FAR if symbol.maximum is None else symbol.maximum,
    )
    try:
        return any(_at(size, value_of) <= 0 for value_of in samples)
    except (KeyError, ZeroDivisionError):
        return False


def _at(size: Any, value_of: Callable[[SizeSymbol], int]) -> int:
    """Returns the value of a size. Raises KeyError for ops that are not exact or rare, ZeroDivisionError for a divisor of 0."""
    if isinstance(size, int):
        return size
    total = 0
    for factors, k in size.terms:
        for f in factors:
            k *= value_of(f) if isinstance(f, SizeSymbol) else _EXACT[f.op](_at(f.left, value_of), _at(f.right, value_of))
        total += k
    return total


def _lower(size: Any) -> Iterator[Any]:
    """Yields sizes that a multiple of this one is never below: each replaces an opaque factor by one that it is bounded by."""
    kind = type(size)
    for factors, k in size.terms:
        for i, f in enumerate(factors):
            others = (*factors[:i], *factors[i + 1 :])
            if not isinstance(f, Opaque) or any(_range(g)[0] < 0 for g in others):
                continue
            rest = kind(((others, 1),)) if others else 1
            symbol = one_symbol(f.right)
            if f.op == "//" and symbol is not None and symbol in others:  # n // s * s is from n - s + 1 to n
                at = others.index(symbol)
                left = (*others[:at], *others[at + 1 :])
                bound = f.left - (f.right - 1 if k > 0 else 0)
                yield size - kind(((factors, k),)) + (kind(((left, k),)) if left else k) * bound
            for by, bound in _bounding(f, from_below=k > 0):
                yield size * by + k * rest * (bound - kind((((f,), 1),)) * by)


def one_symbol(size: Any) -> SizeSymbol | None:
    """Returns the symbol that a size is; None for others."""
    terms: Terms = () if isinstance(size, int) else size.terms
    factors = [f for product, _ in terms for f in product]
    f = factors[0] if len(terms) == len(factors) == 1 and terms[0][1] == 1 else None
    return f if isinstance(f, SizeSymbol) else None


def _bounding(f: Opaque, *, from_below: bool) -> Iterator[tuple[int, Any]]:
    """Yields numbers and sizes: the number times the factor is at least, or else at most, the size."""
    if (f.op == "max") if from_below else (f.op == "min"):
        yield 1, f.left
        yield 1, f.right
    elif f.op == "/" and isinstance(f.right, int):
        yield f.right, f.left
    elif f.op == "//" and isinstance(f.right, int) and f.right > 0:
        yield f.right, f.left - (f.right - 1 if from_below else 0)
    elif f.op == "%" and not from_below and _bounds(f.right)[0] > 0:
        yield 1, f.right - 1
    elif f.op in ROUNDED:
        yield from _rounding_bounds(f.left, from_below=from_below)


def _rounding_bounds(value: Any, *, from_below: bool) -> Iterator[tuple[int, Any]]:
    """Yields what a float is at least, or else at most, once it is rounded: a size times a number lies between its multiples."""
    f = value.terms[0][0][0]
    by = next((side for side in (f.left, f.right) if _is_constant(side)), None)
    size = f.left if by is f.right else f.right
    if f.op == "fmul" and by is not None and not _is_float(size) and _bounds(size)[0] >= 0:
        exact = _bounds(by)[0]
        yield 1, size * (math.floor(exact) if from_below else math.ceil(exact))
    elif f.op == "fdiv" and isinstance(f.right, int) and f.right > 0 and not _is_float(f.left):
        yield f.right, f.left - (f.right - 1) if from_below else f.left + (f.right - 1)


def _is_constant(value: Any) -> bool:
    """Returns whether a value is a float that no symbol is part of."""
    f = value.terms[0][0][0] if _is_float(value) else None
    return f is not None and f.op == "fdiv" and isinstance(f.left, int) and isinstance(f.right, int)


def _is_float(value: Any) -> bool:
    terms: Terms = () if isinstance(value, int) else value.terms
    factors = terms[0][0] if len(terms) == 1 else ()
    return len(factors) == 1 and isinstance(factors[0], Opaque) and factors[0].op in FLOAT_OPS


@lru_cache(4096)
def _bounds(size: Any) -> tuple[float, float]:
    """Returns bounds of a size: each factor is written as its least value plus something that is not negative, or where it has none
    as its largest value minus that."""
    if isinstance(size, int):
        return size, size
    total: dict[tuple[Factor, ...], float] = {}
    for factors, k in size.terms:
        parts: dict[tuple[Factor, ...], float] = {(): k}
        for f in factors:
            low, high = _range(f)
            end, sign = (low, 1) if low != -math.inf else (high, -1)
            if end == math.inf:
                return -math.inf, math.inf
            grown: dict[tuple[Factor, ...], float] = {}
            for key, v in parts.items():
                grown[key] = grown.get(key, 0) + v * end
                grown[multiply(key, (f,))] = grown.get(multiply(key, (f,)), 0) + v * sign
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
    if isinstance(f, SizeSymbol):
        return f.minimum, math.inf if f.maximum is None else f.maximum
    (a, b), (c, d) = _bounds(f.left), _bounds(f.right)
    if f.op == "min":
        return min(a, c), min(b, d)
    if f.op == "max":
        return max(a, c), max(b, d)
    if f.op == "%":
        return (0, d - 1) if c > 0 else (-math.inf, math.inf)
    if (known := range_of(f.op, (a, b), (c, d))) is not None:
        return known
    if f.op == "root":
        return math.isqrt(int(max(a, 0))), b if b == math.inf else math.isqrt(int(b))
    if c <= 0:
        return -math.inf, math.inf
    if f.op == "/":
        return -_quotient(-a, d if a >= 0 else c), max(0, _quotient(b, c))
    return min(_quotient(a, c), _quotient(a, d)), max(_quotient(b, c), _quotient(b, d))


def at_least(size: Any) -> int:
    """Returns the largest number that a size, which is not negative, is known to be at least."""
    return max(int(max(_bounds(size)[0], 0)), 0)


def is_bounded(size: Any) -> bool:
    """Returns whether a size is known to be at most some number."""
    return upper_end(size) != math.inf


def upper_end(size: Any) -> float:
    """Returns the largest value that a size is known to have at most, inf without one."""
    return _bounds(size)[1]


def lower_end(f: Factor) -> float:
    """Returns the least value of a factor, -inf without one."""
    return _range(f)[0]


def _quotient(a: float, b: float) -> float:
    """Returns a // b for a positive b, where either may be without limit."""
    if math.isinf(a):
        return a
    return a // b if b != math.inf else 0 if a >= 0 else -1
