"""Concatenations in programs whose blocks each lie within one part: emits a branch that computes that part alone.

Elsewhere every part is computed with masked loads, and one of them selected.
"""

from collections.abc import Callable
from functools import partial, reduce
from typing import TYPE_CHECKING

from torch_mlir.dialects import arith

from ...ir.expressions import Expr, walk
from ...ir.guards import Bound, Guard, conjunction
from ...space.regions import choice_of, ends_along
from . import bounds

if TYPE_CHECKING:
    from .blocks import Blocks


def store_in_parts(b: "Blocks", lanes: int, e: Expr, store: Callable[[], None]) -> None:
    """Emits `store` in a branch for each part of the concatenation in `e` that blocks of `lanes` elements can lie in. store:
    emits the store of `e`."""
    select = next((x for x in reversed(walk(e)) if x not in b.decided and _fits(b, lanes, x)), None)
    choice = choice_of(select) if select is not None else None
    if select is None or choice is None:
        store()
        return
    bound, yes, no = choice
    low, high = _range(bound, b.known)

    def decided(value: Expr, index_range: tuple[int, int]) -> None:
        """Stores what is left where the condition is decided."""
        outer_known = b.known
        b.decided[select], b.known = value, conjunction(outer_known, (Bound(bound.index, *index_range),))
        store_in_parts(b, lanes, e, store)
        del b.decided[select]
        b.known = outer_known

    if bound.low <= low and high <= bound.high:
        decided(yes, (low, high))
        return
    if bound.high <= low or high <= bound.low:
        decided(no, (low, high))
        return
    with b.point():
        at = b.index(bound.index)
        inside = reduce(arith.andi, bounds.comparisons(bound, at, b.number, (low, high - 1)))
    outside = (bound.high, high) if bound.low <= low else (low, bound.low) if high <= bound.high else (low, high)
    within = max(low, bound.low), min(high, bound.high)

    def part(value: Expr, index_range: tuple[int, int]) -> None:
        """Emits one branch, with all of its values computed again."""
        with b.anew():
            decided(value, index_range)

    b.branch(inside, partial(part, yes, within), partial(part, no, outside))


def _range(bound: Bound, known: Guard) -> tuple[int, int]:
    """Returns the values that the index of a bound is known to have: at least, and less than."""
    first, last = bound.index.bounds()
    alike = [(k, bound.index.constant - k.index.constant) for k in known if k.index.terms == bound.index.terms]
    return max([first, *(k.low + c for k, c in alike)]), min([last + 1, *(k.high + c for k, c in alike)])


def _fits(b: "Blocks", lanes: int, e: Expr) -> bool:
    """Returns whether blocks of `lanes` elements all lie on one side of the bound that a select chooses by."""
    choice = choice_of(e)
    if choice is None or b.vector is None:
        return False
    ends = ends_along(choice[0], b.merged, b.vector)
    return ends is not None and not any(n % lanes for n in (*ends, b.vector.extent))
