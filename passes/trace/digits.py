"""Divides an index into one for each dimension where no split of axes makes these affine: digits, in the mixed radix of the shape.

A reshape of what is computed element by element reads its operands at such digits. Operands that are as long in memory as the
reshape is join them again, so that nothing is divided:

    x[i // 5, i % 5], a row-major tensor of 3 x 5   ->   element i // 5 * 5 + i % 5 = i
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from lamina.core.sizes import SizeLike

from ..ir.affine import Affine
from ..ir.expressions import Expr, Interner

Number = tuple[Affine, tuple[SizeLike, ...]]
"""An index and the shape in which it counts elements."""


class Undivided(Exception):
    """Raised where an index would have to be divided at run time: the reshape that divides it reads memory instead."""


@dataclass
class Digits:
    """The digits of a tracer's indices. make: creates their expressions, each once."""

    make: Interner

    def __post_init__(self) -> None:
        self._places: dict[Expr, tuple[Number, int]] = {}  # the number that an expression is a digit of, and its dimension

    def of(self, index: Affine, shape: tuple[SizeLike, ...]) -> tuple[Affine, ...]:
        """Returns the index in a shape at the row-major position `index`, divided at run time."""
        found, rest = [Affine()] * len(shape), self.make.position(index, "index")
        for d in reversed(range(len(shape))):
            if shape[d] == 1:
                continue
            digit, size = rest, self.make.const(shape[d], "index")
            if any(n != 1 for n in shape[:d]):
                digit = self.make.apply("arith.remui", (rest, size), None, "index")
                rest = self.make.apply("arith.divui", (rest, size), None, "index")
            self._places[digit] = (index, shape), d
            found[d] = Affine.of(digit)
        return tuple(found)

    def among(self, index: Affine) -> bool:
        """Returns whether an index has a digit among its terms."""
        return any(t in self._places for t, _ in index.terms)

    def joined(self, index: Affine) -> Affine:
        """Returns an index in which all digits of a number, each with the elements that its dimension's neighbors are apart, are
        that number."""
        whole = dict(self._whole(index))
        if not whole:
            return index
        others = ((t, c) for t, c in index.terms if t not in self._places or self._places[t][0] not in whole)
        out = Affine(index.constant, tuple(others))
        for (number, _), step in whole.items():
            out = out + number * step
        return out

    def _whole(self, index: Affine) -> Iterator[tuple[Number, SizeLike]]:
        """Yields the numbers of which an index has all digits, and the factor of the last one."""
        steps: dict[Number, dict[int, SizeLike]] = {}
        for term, c in index.terms:
            if term in self._places:
                number, d = self._places[term]
                steps.setdefault(number, {})[d] = c
        for number, by_dimension in steps.items():
            shape = number[1]
            last = max(d for d, n in enumerate(shape) if n != 1)
            step = by_dimension.get(last, 0)
            if all(n == 1 or by_dimension.get(d, 0) == step * math.prod(shape[d + 1 :]) for d, n in enumerate(shape)):
                yield number, step
