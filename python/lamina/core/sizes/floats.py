"""Floats computed from sizes, and the ops that round them to sizes: a model keeps `int(n * 0.7)` rows, or `math.ceil(math.log2(n))`
steps.

A float is an opaque factor like a quotient, and only rounding one makes a size. The call computes it as Python does, operation by
operation, in f64: what a float rounds decides between two sizes. A constant is the quotient of its numerator and denominator.

    trunc(fmul(s0~8, fdiv(3152519739159347, 4503599627370496)), 1)
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

FLOAT_OPS: Mapping[str, Callable[[Any, Any], float]] = {
    "fdiv": lambda a, b: a / b, "fmul": lambda a, b: float(a) * b, "fadd": lambda a, b: float(a) + b, "fpow": math.pow,
    "fmin": lambda a, b: float(min(a, b)), "fmax": lambda a, b: float(max(a, b)),
    "fsqrt": lambda a, _: math.sqrt(a), "flog": lambda a, _: math.log(a), "flog2": lambda a, _: math.log2(a),
    "fexp": lambda a, _: math.exp(a),
}  # fmt: skip
"""Ops that compute a float from two sizes or floats; the right operand of unary ones is 1."""
ROUNDED: Mapping[str, Callable[[Any, Any], int]] = {
    "trunc": lambda a, _: math.trunc(a), "floor": lambda a, _: math.floor(a), "ceil": lambda a, _: math.ceil(a),
    "round": lambda a, _: round(a),
}  # fmt: skip
"""Ops that round a float to a size; their right operand is 1."""

Range = tuple[float, float]
_OF_ONE = ("fsqrt", "flog", "flog2", "fexp")
_ANY = (-math.inf, math.inf)


def range_of(op: str, left: Range, right: Range) -> Range | None:
    """Returns the least and the largest value of an op of FLOAT_OPS or ROUNDED; None for other ops."""
    if op in ROUNDED:
        low, high = (end if math.isinf(end) else ROUNDED[op](end, 1) for end in left)
        return low, high
    if op not in FLOAT_OPS:
        return None
    try:
        return _float_range(op, left, right)
    except (ValueError, OverflowError, ZeroDivisionError):
        return _ANY


def _float_range(op: str, left: Range, right: Range) -> Range:
    function = FLOAT_OPS[op]
    if op in ("fadd", "fmin", "fmax"):
        return function(left[0], right[0]), function(left[1], right[1])
    if left[0] < 0 or (op == "flog" and not left[0]):
        return _ANY
    if op in _OF_ONE:  # each grows
        return function(left[0], 1), function(left[1], 1)
    if op == "fmul" and right[0] >= 0:
        return function(left[0], right[0]), math.inf if math.inf in (left[1], right[1]) else function(left[1], right[1])
    if op == "fdiv" and right[0] > 0:
        return 0 if right[1] == math.inf else function(left[0], right[1]), function(left[1], right[0])
    return _ANY
