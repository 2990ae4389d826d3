"""Affine index expressions over loop axes, with the divisions that reshapes need.

An `Affine` is `constant + sum(coefficient * term)`. A term is an `Axis` (a loop with a known extent) or an opaque
run-time index (an expression that loads an index from memory). Divisions and remainders are resolved statically from the
extents; where an axis would have to be split for that, `SplitAxis` says which and how, and the caller traces again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from itertools import count, pairwise
from types import MappingProxyType
from typing import Any, Self, TypeAlias

from lamina.core.layout import Layout
from lamina.core.sizes import SizeLike, at_most, below, maximum, minimum, typical

Range: TypeAlias = tuple[SizeLike, SizeLike]
"""The smallest and the largest value of an index."""
_SERIALS = count()


class IndexTerm:
    """A part of an index that varies, an `Axis` or a run-time index. `serial` counts terms in the order in which they are made:
    sums sorted by it are the same in every process, as those sorted by `id` would not be.
    """

    serial: int

    def __new__(cls, *_: object, **__: object) -> Self:
        """Creates a term with the next serial number."""
        term = super().__new__(cls)
        term.serial = next(_SERIALS)
        return term


@dataclass(eq=False)
class Axis(IndexTerm):
    """A loop of a kernel: `extent` iterations, counted from 0."""

    extent: SizeLike
    name: str = ""

    def __repr__(self) -> str:
        return f"{self.name or 'axis'}<{self.extent}>"


class SplitAxis(Exception):
    """Asks for `axis` to be split into an outer axis and an inner one of `inner` iterations; the caller then traces again."""

    def __init__(self, axis: Axis, inner: SizeLike) -> None:
        super().__init__(f"split {axis} by {inner}")
        self.axis, self.inner = axis, inner


class NotAffine(Exception):
    """Raised for an index that no split of axes makes affine."""


@dataclass(frozen=True)
class Affine:
    """`constant + sum(coefficient * term)`; terms are sorted by serial number, so equal expressions compare equal."""

    constant: SizeLike = 0
    terms: tuple[tuple[Any, SizeLike], ...] = ()

    @staticmethod
    def of(term: Any, coefficient: SizeLike = 1) -> "Affine":
        """Returns `coefficient * term`; ZERO for an axis of one iteration or a coefficient of 0."""
        if isinstance(term, Axis) and term.extent == 1:
            return ZERO
        return Affine(0, ((term, coefficient),)) if coefficient else ZERO

    def __add__(self, other: "Affine | SizeLike") -> "Affine":
        if not isinstance(other, Affine):
            return Affine(self.constant + other, self.terms)
        if not other.terms:
            return Affine(self.constant + other.constant, self.terms)
        if not self.terms:
            return Affine(self.constant + other.constant, other.terms)
        sums = dict(self.terms)
        for term, c in other.terms:
            sums[term] = sums.get(term, 0) + c
        return Affine(self.constant + other.constant, tuple(sorted(((t, c) for t, c in sums.items() if c), key=_order)))

    def __mul__(self, k: SizeLike) -> "Affine":
        return Affine(self.constant * k, tuple((t, c * k) for t, c in self.terms)) if k else ZERO

    def coefficient(self, axis: Any) -> SizeLike:
        """Returns the coefficient of `axis`, 0 where it does not occur."""
        for term, c in self.terms:
            if term is axis:
                return c
        return 0

    @property
    def opaque(self) -> bool:
        """Whether a run-time index is among the terms."""
        return any(not isinstance(t, Axis) for t, _ in self.terms)

    def bounds(self, ranges: Mapping[Axis, Range] = MappingProxyType({})) -> Range:
        """Returns the smallest and largest value over all iterations, of which there are some. Only for expressions that are not
        opaque. ranges: of axes that run over a part of their extent."""
        low = high = self.constant
        for axis, c in self.terms:
            first, last = ranges.get(axis) or (0, axis.extent - 1)
            if at_most(0, c):
                low, high = low + first * c, high + last * c
            else:
                low, high = minimum(first * c, last * c) + low, maximum(first * c, last * c) + high
        return low, high

    def divmod(self, k: SizeLike) -> tuple["Affine", "Affine"]:
        """Returns (self // k, self % k) for a value known to be >= 0. Raises SplitAxis or NotAffine if it is not affine."""
        if k == 1:
            return self, ZERO
        if k == 0:  # of an empty tensor: never evaluated
            return ZERO, ZERO
        if self.opaque:
            raise NotAffine
        whole = [(t, c // k) for t, c in self.terms if c % k == 0]
        rest = [(t, c) for t, c in self.terms if c % k]
        q, r = divmod(self.constant, k)
        remainder = Affine(r, tuple(rest))
        low, high = remainder.bounds()
        if not at_most(0, low):
            raise NotAffine
        if below(high, k):
            return Affine(q, tuple(whole)), remainder
        for axis, c in sorted(rest, key=lambda x: -typical(x[1])):
            fits = k % c == 0 and axis.extent % (k // c) == 0
            if fits and below(0, c) and not at_most(k, c) and not at_most(axis.extent * c, k):
                raise SplitAxis(axis, k // c)
        raise NotAffine

    def injective_axes(self) -> tuple[Axis, ...]:
        """Returns the axes of an index that is another one for any other iteration of them; none where that is not known."""
        if self.opaque:
            return ()
        reach: SizeLike = 0
        for axis, c in sorted(self.terms, key=lambda term: typical(term[1])):
            if not below(reach, c):
                return ()
            reach = reach + c * (axis.extent - 1)
        return tuple(axis for axis, _ in self.terms)

    def rename(self, change: dict[Axis, "Affine"]) -> "Affine":
        """Replaces every axis in `change` by its expression."""
        if not any(t in change for t, _ in self.terms):
            return self
        out = Affine(self.constant)
        for t, c in self.terms:
            out = out + (change[t] * c if t in change else Affine.of(t, c))
        return out


def _order(item: tuple[Any, int]) -> int:
    return item[0].serial


ZERO = Affine()


def row_major(shape: tuple[SizeLike, ...]) -> tuple[SizeLike, ...]:
    """Returns the strides, in elements, of a contiguous tensor."""
    return Layout.row_major(shape).strides


def order_of(strides: Sequence[SizeLike]) -> tuple[int, ...]:
    """Returns the dimensions from the outermost in memory to the innermost."""
    return tuple(sorted(range(len(strides)), key=lambda d: -typical(strides[d])))


def in_order(shape: Sequence[SizeLike], order: tuple[int, ...]) -> tuple[SizeLike, ...]:
    """Returns the dense strides, in elements, of a tensor whose dimensions lie in this order in memory, the outermost first."""
    strides, step = [0] * len(shape), 1
    for d in reversed(order):
        strides[d], step = step, step * shape[d]
    return tuple(strides)


def offset(index: tuple[Affine, ...], strides: tuple[SizeLike, ...]) -> Affine:
    """Returns the element offset of `index` in memory with `strides`."""
    out = ZERO
    for i, s in zip(index, strides, strict=True):
        out = out + i * s
    return out


def unflatten(index: Affine, shape: tuple[SizeLike, ...]) -> tuple[Affine, ...]:
    """Returns the index in `shape` at the row-major position `index`. Raises as `Affine.divmod` does."""
    out = []
    for n in reversed(shape[1:]):
        index, last = (index, ZERO) if n == 1 else index.divmod(n)
        out.append(last)
    return (index, *reversed(out)) if shape else ()


def _by_division(one: SizeLike, other: SizeLike) -> int:
    """Compares sizes, of which one divides the other, where those of the call that was traced do not tell."""
    return 0 if one == other else -1 if other % one == 0 else 1


def refine(shapes: list[tuple[SizeLike, ...]]) -> tuple[SizeLike, ...] | None:
    """Returns the coarsest factorization of a row-major space in which every dimension of every shape is a product of
    adjacent factors, or None when the shapes do not fit together. All shapes hold the same number of elements.
    """
    if any(0 in shape for shape in shapes):
        return shapes[0] if all(shape == shapes[0] for shape in shapes) else None
    cuts = set()
    for shape in shapes:
        step = 1
        for n in reversed(shape):
            cuts.add(step)
            step *= n
        cuts.add(step)
    sizes = {typical(step) for step in cuts}
    order = sorted(cuts, key=typical if len(sizes) == len(cuts) and 0 not in sizes else cmp_to_key(_by_division))
    factors = []
    for small, big in pairwise(order):
        if big % small != 0:
            return None
        factors.append(big // small)
    return tuple(reversed(factors)) or (1,)
