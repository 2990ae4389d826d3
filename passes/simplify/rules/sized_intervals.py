"""Interval analysis of integers whose bounds are symbolic sizes: positions, clamps, reflections and offsets by sizes."""

from collections.abc import Callable, Iterable
from itertools import product

from torch_mlir import ir

from lamina.core.sizes import SizeLike, at_most

from ...ir.reading import element_of, integer
from ...ir.sizes import size_of
from ..scalars import ScalarRef
from ..scope import RewriteScope
from .casts import is_bool

Bounds = tuple[list[SizeLike], list[SizeLike]]
"""Sizes that an integer is at least, and sizes that it is at most."""

_DEEPEST = 10
_MOST = 4  # bounds of a side that are followed up
_WIDE = 64  # bits of integers whose sums and differences of sizes do not wrap
_NONE: Bounds = [], []


def sized_interval(s: RewriteScope, ref: ScalarRef, depth: int = _DEEPEST) -> Bounds:
    """Returns bounds of an integer, where symbolic ones are known."""
    resolved = s.scalars.resolve(ref)
    if isinstance(number := s.number(ref), int):
        return [number], [number]
    if (size := size_of(resolved.value)) is not None:
        return [size], [size]
    node = s.node(resolved) if depth else None
    if node is None:
        return _NONE
    if node.name == "linalg.index":
        loop = resolved.index[integer(node.op, "dim")]
        extent = 1 if loop < 0 else s.generic.extents.get(loop)
        return [0], [] if extent is None else [extent - 1]
    if is_bool(element := element_of(resolved.value.type)):
        return _NONE
    if node.name == "arith.trunci" or (
        node.name == "arith.index_cast" and isinstance(element, ir.IntegerType) and element.width < _WIDE
    ):
        return _low_bits(sized_interval(s, node.args[0], depth - 1))
    if node.name not in _BOUNDS:
        return _NONE
    if node.name in _MAY_WRAP and isinstance(element, ir.IntegerType) and element.width < _WIDE:
        return _NONE
    found = []
    for arg in node.args[1:] if node.name == "arith.select" else node.args:
        found.append(sized_interval(s, arg, depth - 1))
        if found[-1] == _NONE and node.name not in ("arith.minsi", "arith.maxsi"):
            return _NONE  # without a look at the others
    low, high = _BOUNDS[node.name](*found)
    return [-a for a in _tightest(-a for a in low)], _tightest(high)


def _tightest(bounds: Iterable[SizeLike]) -> list[SizeLike]:
    """Returns the bounds from above that no other makes redundant."""
    found: list[SizeLike] = []
    for bound in bounds:
        if not any(at_most(other, bound) for other in found):
            found = [*(other for other in found if not at_most(bound, other)), bound]
    return found[:_MOST]


def _low_bits(x: Bounds) -> Bounds:
    """Returns the bounds of the low bits of an integer, which may be negative where it wraps: if it is not negative, they are no
    more than it."""
    natural = any(at_most(0, a) for a in x[0])
    return [], [a for a in x[1] if natural and at_most(0, a)]


def _sum(x: Bounds, y: Bounds) -> Bounds:
    return [a + b for a, b in product(x[0], y[0])], [a + b for a, b in product(x[1], y[1])]


def _negated(x: Bounds) -> Bounds:
    return [-a for a in x[1]], [-a for a in x[0]]


def _smaller(x: Bounds, y: Bounds) -> Bounds:
    return _negated(_larger(_negated(x), _negated(y)))


def _larger(x: Bounds, y: Bounds) -> Bounds:
    """Returns the bounds of the larger of two integers: both are at most what either is known to be at most and the other's bound
    does not exceed."""
    return [*x[0], *y[0]], _common(x[1], y[1])


def _either(x: Bounds, y: Bounds) -> Bounds:
    return [-a for a in _common([-a for a in x[0]], [-a for a in y[0]])], _common(x[1], y[1])


def _common(x: Iterable[SizeLike], y: Iterable[SizeLike]) -> list[SizeLike]:
    """Returns the bounds from above that hold on both sides."""
    sides = list(x), list(y)
    return [b for b in dict.fromkeys((*sides[0], *sides[1])) if all(any(at_most(a, b) for a in side) for side in sides)]


def _absolute(x: Bounds) -> Bounds:
    low, high = _larger(x, _negated(x))
    return [*low, 0], high


def _unchanged(x: Bounds) -> Bounds:
    return x


_MAY_WRAP = {"arith.addi", "arith.subi", "math.absi"}
_BOUNDS: dict[str, Callable[..., Bounds]] = {
    "arith.addi": _sum,
    "arith.subi": lambda x, y: _sum(x, _negated(y)),
    "math.absi": _absolute,
    "arith.minsi": _smaller,
    "arith.maxsi": _larger,
    "arith.select": _either,
    "arith.index_cast": _unchanged,
    "arith.extsi": _unchanged,
}


def exceeds(x: Bounds, y: Bounds, *, by: int) -> bool:
    """Returns whether an integer is known to be at least `by` more than another."""
    return any(at_most(b + by, a) for a, b in product(x[0], y[1]))
