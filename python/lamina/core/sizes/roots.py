"""Square roots of sizes: a model makes an image of a row of pixels by `int(n ** 0.5)`."""

import math

from .factors import Opaque
from .size import Size, SizeLike, at_most, factor_of


def root(size: SizeLike) -> SizeLike:
    """Returns the square root of a size that is not negative, rounded down."""
    if isinstance(size, int):
        return math.isqrt(size)
    found = _polynomial(size)
    return factor_of(Opaque("root", size, 2)) if found is None or not at_most(0, found) else found


def _polynomial(square: Size) -> SizeLike | None:
    """Returns the polynomial whose square a size is, up to its sign; None for others."""
    factors, k = square.terms[0]
    half = factors[::2]  # they are sorted
    if factors[1::2] != half or math.isqrt(abs(k)) ** 2 != k:
        return None
    root: SizeLike = Size(((half, math.isqrt(k)),))
    first, rest = root, square - root * root
    for _ in range(8):
        if rest == 0:
            return root
        step, left = divmod(Size(rest.terms[:1]) if isinstance(rest, Size) else rest, 2 * first)
        if left != 0:
            return None
        rest = rest - step * (2 * root + step)
        root = root + step
    return None
