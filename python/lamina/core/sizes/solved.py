"""Solves equations of sizes for factors that are not polynomials, or for multiples of a number, and substitutes the solutions."""

import math
from collections import Counter
from collections.abc import Callable, Sequence

from .factors import Factor, Opaque, SizeSymbol, lower_end
from .roots import root
from .size import Size, SizeLike, at_most, below, exact_quotient, factor_of, known_part
from .values import apply_op, symbols_of, typical

Solved = dict[Factor, SizeLike]
"""The known values of quotients, remainders, minima and maxima, and of symbols that are multiples of a number."""


Equation = tuple[SizeLike, SizeLike]
"""Two sizes that are equal."""

_FEW = 64


def with_equation(known: Solved, equal: SizeLike, other: SizeLike) -> Solved:
    """Returns the known values extended by an equation of two sizes."""
    found = solve(substitute_known(equal - other, known))
    if not found:
        return known
    known = {f: substitute_known(size, found) for f, size in known.items()} | found
    for f in [f for f in found if isinstance(f, Opaque) and f.op in ("//", "%")]:
        rest, quotient = (known.get(Opaque(op, f.left, f.right)) for op in ("%", "//"))
        if rest is not None and quotient is not None:
            known = known | solve(f.left - quotient * f.right - rest)
    return known


def learned_all(known: Solved, equations: Sequence[Equation]) -> tuple[Solved, list[Equation]]:
    """Returns the known values extended by equations, and the equations that remain unsolved. Later ones may solve earlier ones."""
    rest = list(equations)
    while True:
        before, given = known, rest
        rest = []
        for equation in given:
            more = with_equation(known, *equation)
            if more is known and substitute_known(equation[0] - equation[1], known) != 0:
                rest.append(equation)
            known = more
        if known is before or not rest:
            return known, rest


def solve(difference: SizeLike) -> Solved:
    """Returns the value of the one symbol, quotient, remainder, minimum or maximum that a difference is a polynomial of where it is
    0; nothing if a value other than the hints' may be a solution, too. Where it says that a size divides another one, returns
    that as the product of the divisor and the quotient; where it says that a symbol is a square, the symbol as that of its root."""
    if not isinstance(difference, Size) or typical(difference) != 0:
        return {}
    difference = _without_common(difference)
    factors = {f for product, _ in difference.terms for f in product}
    if len(factors) == 2 and (equal := _equal(difference)):
        return equal
    if len(factors) > 1:
        return next(
            filter(None, (_solve_quotient(difference, *term) or _square(difference, *term) for term in difference.terms)), {}
        )
    (one,) = factors
    degrees = {len(product): k for product, k in difference.terms}
    if degrees.keys() - {0, 1} and not _has_one_root(degrees, one):
        return {}
    value = typical(factor_of(one))
    if isinstance(one, Opaque) and one.op == "%" and value == 0:
        return {one: 0} | _multiple(one.left, one.right)
    return {one: value}


def _has_one_root(degrees: dict[int, int], factor: Factor) -> bool:
    """Returns whether a polynomial of one factor, given by its coefficients, is known to be 0 for no two values of it: it rises or
    falls from some value on, and below that has no root."""
    low = lower_end(factor)
    if low == -math.inf:
        return False
    for start in range(int(low), int(low) + _FEW):
        slopes = [
            sum(k * math.comb(n, d) * start ** (n - d) for n, k in degrees.items() if n >= d) for d in range(1, max(degrees) + 1)
        ]
        if min(slopes) >= 0 or max(slopes) <= 0:
            return all(sum(k * value**n for n, k in degrees.items()) for value in range(int(low), start))
    return False


def _equal(difference: Size) -> Solved:
    """Solves `symbol - symbol == 0`."""
    products, numbers = zip(*difference.terms, strict=True)
    symbols = [product[0] for product in products if len(product) == 1 and isinstance(product[0], SizeSymbol)]
    return {symbols[1]: factor_of(symbols[0])} if sorted(numbers) == [-1, 1] and len(symbols) == 2 else {}


def _without_common(difference: Size) -> Size:
    """Divides by the number and by the factors above 0 that are in every term."""
    common = Counter(difference.terms[0][0])
    for product, _ in difference.terms:
        common &= Counter(product)
    by: SizeLike = math.gcd(*(k for _, k in difference.terms))
    for f in common.elements():
        by = by * factor_of(f) if lower_end(f) > 0 else by
    whole = difference // by
    return whole if isinstance(whole, Size) else difference


def _solve_quotient(difference: Size, product: tuple[Factor, ...], k: int) -> Solved:
    """Solves `whole - by * (whole // by) == rest`: a factor of a term is the quotient, k times its other factors the divisor."""
    term = Size(((product, abs(k)),))
    whole = term - difference if k > 0 else difference + term
    for f in product:
        by = term // factor_of(f)
        if not isinstance(f, Opaque) or f.op != "//" or by == 1:
            continue
        rest = f.left - whole if f.right == by else 0
        if (whole // by == factor_of(f) or (at_most(0, rest) and below(rest, by))) and (found := _multiple(whole, by)):
            return found
    return {}


def _square(difference: Size, product: tuple[Factor, ...], k: int) -> Solved:
    """Solves `whole - root * root == 0`, where the whole is the sum of a symbol and a number."""
    f = product[0] if len(product) == 1 else None
    if not isinstance(f, SizeSymbol) or abs(k) != 1:
        return {}
    plus = known_part(difference) * k
    side = root(factor_of(f) + plus)
    return {f: side * side - plus} if difference * k == factor_of(f) + plus - side * side else {}


def _multiple(whole: SizeLike, by: SizeLike) -> Solved:
    """Returns the value of a factor, given that a sum of it and other sizes, or a multiple of it, is divided without remainder."""
    terms = [(product[0], k) for product, k in whole.terms if len(product) == 1] if isinstance(whole, Size) else []
    if not below(0, by) or symbols_of(whole) & symbols_of(by):
        return {}
    for f, times in sorted(terms, key=lambda term: isinstance(term[0], Opaque)):
        rest = whole - times * factor_of(f)
        if abs(times) == 1 and symbols_of(factor_of(f)).isdisjoint(symbols_of(rest)):
            return {f: (exact_quotient(whole, by) * by - rest) * times}
        if rest == 0 and isinstance(by, int) and math.gcd(times, by) == 1:
            return {f: exact_quotient(factor_of(f), by) * by}
    return {}


def substitute_known(size: SizeLike, known: Solved) -> SizeLike:
    """Returns a size with these values in the place of its factors, and of what they are made of."""
    return _map_factors(size, lambda f: _replaced(f, known)) if known else size


def _map_factors(size: SizeLike, function: Callable[[Factor], SizeLike]) -> SizeLike:
    if not isinstance(size, Size):
        return size
    total: SizeLike = 0
    for factors, k in size.terms:
        part: SizeLike = k
        for f in factors:
            part = part * function(f)
        total = total + part
    return total


def _replaced(f: Factor, known: Solved) -> SizeLike:
    if f in known:
        return known[f]
    if isinstance(f, SizeSymbol):
        return factor_of(f)
    left, right = substitute_known(f.left, known), substitute_known(f.right, known)
    by_known = _nested_quotient(f, known) if f.op == "//" else None
    return _map_factors(apply_op(f.op, left, right) if by_known is None else by_known, lambda g: known.get(g, factor_of(g)))


def _nested_quotient(f: Opaque, known: Solved) -> SizeLike | None:
    """Returns a quotient by a multiple of a known quotient's divisor: (n + 16)//32 is (n//16 + 1)//2."""
    for g, value in known.items():
        if not isinstance(g, Opaque) or g.op != "//" or not isinstance(g.right, int) or not isinstance(f.right, int):
            continue
        more = f.left - g.left
        if isinstance(more, int) and more % g.right == f.right % g.right == 0:
            return (value + more // g.right) // (f.right // g.right)
    return None
