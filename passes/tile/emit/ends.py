"""Ends loops over symbolic extents where the rest would add neutral elements only, such as the padding of a sum's last part.

The loop then takes fewer iterations, and its loads need no mask for the bound that it ends at:

    for i < length:    sum += x[base + i] where base + i < n      ->      for i < min(length, n - base):    sum += x[base + i]
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith

from lamina.core.sizes import SizeLike, at_most, is_symbolic

from ...ir.affine import Affine, Axis
from ...ir.expressions import Apply, Const, Expr, InBounds, Load, walk
from ...ir.guards import Bound, narrowed
from ...ir.reading import neutral
from ...space.nests import Nest
from .bounds import extremes

if TYPE_CHECKING:
    from .blocks import Blocks

_OF_ZERO = ("arith.extf", "arith.truncf", "arith.negf", "math.absf")  # of 0 they are 0


@contextmanager
def early(b: "Blocks", nest: Nest, axis: Axis) -> Iterator[tuple[ir.Value, SizeLike | None]]:
    """Yields the iterations that a nest's loop over `axis` needs: as a value, and as a size where it is the axis's extent. While
    open, the bounds that the loop ends at are known to hold."""
    known, bounds = b.known, tuple(_ends(b, nest, axis))
    count = b.number(axis.extent)
    with b.point():
        for bound in bounds:
            rest = bound.at.rename(b.merged.rename) + Affine(0, ((axis, -1),))
            left = arith.subi(b.number(bound.high), b.index(rest))
            count = arith.minsi(count, arith.maxsi(left, b.number(0)))
    b.known = narrowed(known, bounds)
    yield count, None if bounds else axis.extent
    b.known = known


def _ends(b: "Blocks", nest: Nest, axis: Axis) -> Iterator[Bound]:
    """Yields the bounds that fail from some iteration of `axis` on, where all reductions are given their neutral elements then."""
    short = axis is b.vector and at_most(axis.extent, b.lanes)  # one block, which needs a mask all the same
    if not is_symbolic(axis.extent) or short or nest.scans or nest.online or nest.results:
        return
    for bound in _bounds(r.arg for r in nest.reductions):
        at = bound.at.rename(b.merged.rename)
        if at.opaque or at.coefficient(axis) != 1 or any(t is not axis and t not in b.bound for t, _ in at.terms):
            continue
        if at_most(bound.low, extremes(at, b.ranges)[0]) and all(
            _padding(r.arg, bound) == neutral(r.op, r.dtype) for r in nest.reductions
        ):
            yield bound


def _bounds(roots: Iterable[Expr]) -> Iterable[Bound]:
    """Returns the bounds that are no checks of the user's indices, each once."""
    guarded = (e for root in roots for e in walk(root) if isinstance(e, Load | InBounds))
    return dict.fromkeys(bound for e in guarded for bound in e.guard if not bound.message)


def _padding(e: Expr, bound: Bound) -> SizeLike | float | None:
    """Returns the value of an expression where a bound fails; None where it is not known."""
    match e:
        case Load():
            return 0 if bound in e.guard else None
        case Const():
            return e.value
        case Apply(op="arith.select", operands=(InBounds() as inside, _, other)):
            return _padding(other, bound) if bound in inside.guard else None
        case Apply(op=op, operands=operands) if op in _OF_ZERO and _padding(operands[0], bound) == 0:
            return 0
    return None
