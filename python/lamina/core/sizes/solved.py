"""Solves equations of sizes for what is no polynomial, and puts the solutions in its place."""

from .factors import Factor, Opaque, lower_end
from .size import Size, SizeLike, chosen, factor_of, typical

Solved = dict[Opaque, int]
"""The values of quotients, remainders, minima and maxima."""


def solved(difference: SizeLike) -> Solved:
    """Returns the value of the one quotient, remainder, minimum or maximum that a difference is a polynomial of where it is 0;
    nothing where a value other than the hints' may be a solution, too."""
    if not isinstance(difference, Size) or typical(difference) != 0:
        return {}
    factors = {f for product, _ in difference.terms for f in product}
    (one, *more) = factors
    if more or not isinstance(one, Opaque):
        return {}
    degrees = {len(product): k for product, k in difference.terms if product}
    rises = lower_end(one) >= 0 and len({k > 0 for k in degrees.values()}) == 1  # then no two values have one result
    return {one: typical(factor_of(one))} if rises or set(degrees) == {1} else {}


def replaced(size: SizeLike, known: Solved) -> SizeLike:
    """Returns a size with these values in the place of its factors, and of what they are made of."""
    if not isinstance(size, Size) or not known:
        return size
    total: SizeLike = 0
    for factors, k in size.terms:
        part: SizeLike = k
        for f in factors:
            part = part * _replaced(f, known)
        total = total + part
    return total


def _replaced(f: Factor, known: Solved) -> SizeLike:
    if not isinstance(f, Opaque):
        return factor_of(f)
    if f in known:
        return known[f]
    left, right = replaced(f.left, known), replaced(f.right, known)
    match f.op:
        case "//":
            return left // right
        case "%":
            return left % right
        case _:
            return chosen(f.op, (left, right))
