"""Concatenations in programs whose blocks each lie within one part: emits a branch that computes that part alone.

Elsewhere every part is computed with masked loads, and one of them selected.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith, scf

from ...ir.expressions import Expr, walk
from ...ir.guards import Bound, Guard, narrowed
from ...space.concatenations import choice_of, ends_along

if TYPE_CHECKING:
    from .elements import Blocks


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

    def decided(value: Expr, known: tuple[int, int]) -> None:
        before = b.known
        b.decided[select], b.known = value, narrowed(before, (Bound(bound.at, *known),))
        store_in_parts(b, lanes, e, store)
        del b.decided[select]
        b.known = before

    if bound.low <= low and high <= bound.high:
        decided(yes, (low, high))
        return
    if bound.high <= low or high <= bound.low:
        decided(no, (low, high))
        return
    with b.point():
        at = b.index(bound.at)
        begun = arith.cmpi(arith.CmpIPredicate.sge, at, b.number(bound.low))
        before_end = arith.cmpi(arith.CmpIPredicate.slt, at, b.number(bound.high))
        branch = scf.IfOp(arith.andi(begun, before_end), has_else=True)
    outside = (bound.high, high) if bound.low <= low else (low, bound.low) if high <= bound.high else (low, high)
    with _inside(b, branch.then_block, branch.operation):
        decided(yes, (max(low, bound.low), min(high, bound.high)))
    with _inside(b, branch.else_block, branch.operation):
        decided(no, outside)


def _range(bound: Bound, known: Guard) -> tuple[int, int]:
    """Returns the values that the index of a bound is known to have: at least, and less than."""
    least, most = bound.at.bounds()
    alike = [(k, bound.at.constant - k.at.constant) for k in known if k.at.terms == bound.at.terms]
    return max([least, *(k.low + c for k, c in alike)]), min([most + 1, *(k.high + c for k, c in alike)])


@contextmanager
def _inside(b: "Blocks", block: ir.Block, branch: ir.Operation) -> Iterator[None]:
    """Opens a scope within a branch. Axes are bound anew, so that what depends on them is emitted again in it."""
    bound = dict(b.bound)
    with b.scope(block, anchor=branch):
        for axis, (_, value) in bound.items():
            b.bind(axis, value)
        yield
        with ir.InsertionPoint(block):
            scf.YieldOp([])
    b.bound = bound


def _fits(b: "Blocks", lanes: int, e: Expr) -> bool:
    """Returns whether blocks of `lanes` elements all lie on one side of the bound that a select chooses by."""
    choice = choice_of(e)
    if choice is None or b.vector is None:
        return False
    ends = ends_along(choice[0], b.merged, b.vector)
    return ends is not None and not any(n % lanes for n in (*ends, b.vector.extent))
