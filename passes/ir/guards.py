"""Guards: conjunctions of bounds on index expressions."""

from collections.abc import Iterator
from dataclasses import dataclass

from lamina.core.sizes import SizeLike, at_most, below, maximum, minimum

from .affine import Affine


@dataclass(frozen=True)
class Bound:
    """`low <= at < high`. Where `message` is set, a value outside is the user's error; otherwise it is padding."""

    index: Affine
    low: SizeLike
    high: SizeLike
    message: str = ""

    @property
    def always(self) -> bool:
        """Whether the bound is known to hold for all iterations."""
        if self.index.opaque:
            return False
        low, high = self.index.bounds()
        return at_most(self.low, low) and below(high, self.high)

    @property
    def never(self) -> bool:
        """Whether the bound is known to fail for all iterations."""
        if self.index.opaque:
            return False
        low, high = self.index.bounds()
        return below(high, self.low) or at_most(self.high, low)

    def implied_by(self, guard: "Guard") -> bool:
        """Returns whether this bound holds wherever `guard` holds."""
        return self.always or any(
            at_most(self.low, b.low + k) and at_most(b.high + k, self.high) for b, k in self._with_equal_terms(guard)
        )

    def excluded_by(self, guard: "Guard") -> bool:
        """Returns whether this bound holds nowhere that `guard` holds."""
        return self.never or any(
            at_most(self.high, b.low + k) or at_most(b.high + k, self.low) for b, k in self._with_equal_terms(guard)
        )

    def _with_equal_terms(self, guard: "Guard") -> "Iterator[tuple[Bound, SizeLike]]":
        """Yields the bounds of the guard whose index differs by a constant, with that constant (this index minus theirs)."""
        return ((b, self.index.constant - b.index.constant) for b in guard if not b.message and b.index.terms == self.index.terms)


Guard = tuple[Bound, ...]


def with_index_check(guard: Guard, index: Affine, size: SizeLike) -> Guard:
    """Returns a guard with the check of a user's index of a dimension of this size, unless it is known to hold."""
    bound = Bound(index, 0, size, f"index out of range: expected 0 <= index < {size if isinstance(size, int) else 'the size'}")
    return guard if bound.always else (*guard, bound)


def conjunction(guard: Guard, more: Guard) -> Guard:
    """Returns the conjunction of two guards. Bounds of the same index are intersected, so guards of nested slices stay short;
    only those behind the last check of a user's index are, since the bounds in front of a check say where it is made.
    """
    last = max((i for i, b in enumerate(guard) if b.message), default=-1) + 1
    out = list(guard)
    for new in more:
        for i, b in enumerate(out[last:], last):
            if b.index.terms == new.index.terms:
                k = new.index.constant - b.index.constant
                out[i] = Bound(b.index, maximum(b.low, new.low - k), minimum(b.high, new.high - k))
                break
        else:
            out.append(new)
    return tuple(out)
