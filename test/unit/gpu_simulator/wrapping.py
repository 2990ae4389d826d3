"""Finds overflow of integer sums, differences and products that are marked nsw or nuw."""

from collections.abc import Callable

import numpy as np

from .batch import Array

_WRAPS: dict[tuple[str, str], Callable[[Array, Array, Array], Array]] = {
    ("arith.addi", "nsw"): lambda a, b, r: (a ^ r) & (b ^ r) < 0,
    ("arith.subi", "nsw"): lambda a, b, r: (a ^ b) & (a ^ r) < 0,
    ("arith.muli", "nsw"): lambda a, b, r: _product_leaves(a, b),
    ("arith.addi", "nuw"): lambda a, b, r: _unsigned(r) < _unsigned(a),
    ("arith.subi", "nuw"): lambda a, b, r: _unsigned(a) < _unsigned(b),
    ("arith.muli", "nuw"): lambda a, b, r: _product_leaves(_unsigned(a), _unsigned(b)),
}


def wraps(name: str, flags: str, a: Array, b: Array, result: Array) -> Array:
    """Returns which elements of the op `name` overflow as signed (nsw) or as unsigned (nuw) integers."""
    if not result.size or _far_from_limits(name, flags, a, b):
        return np.zeros(1, bool)
    wrong = np.zeros(result.shape, bool)
    for flag in ("nsw", "nuw"):
        if flag in flags:
            wrong |= _WRAPS[name, flag](a, b, result)
    return wrong


def _far_from_limits(name: str, flags: str, a: Array, b: Array) -> bool:
    """Returns whether the least and greatest operands alone show that no result wraps."""
    if a.dtype == np.bool_:
        return False
    (low, high), (least, most) = ((int(x.min()), int(x.max())) for x in (a, b))
    if name == "arith.addi":
        found = low + least, high + most
    elif name == "arith.subi":
        found = low - most, high - least
    else:
        products = [x * y for x in (low, high) for y in (least, most)]
        found = min(products), max(products)
    limits = np.iinfo(a.dtype)
    signed_fits = limits.min <= found[0] and found[1] <= limits.max
    return signed_fits and ("nuw" not in flags or min(low, least, found[0]) >= 0)


def _unsigned(x: Array) -> Array:
    return x.view(f"u{x.itemsize}")


def _product_leaves(a: Array, b: Array) -> Array:
    """Returns which products overflow, by 80-bit floats: products up to 2**64 are exact in them, and others far from a type's
    limits."""
    limits, exact = np.iinfo(a.dtype), a.astype(np.longdouble) * b.astype(np.longdouble)
    return (exact < limits.min) | (exact > limits.max)
