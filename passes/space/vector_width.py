"""Chooses how many neighboring elements a GPU thread reads and writes at a time."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch_mlir import ir

from lamina.core.sizes import at_most, is_bounded, is_symbolic, typical
from lamina.schedules import narrow

from ..ir.affine import Affine, Axis
from ..ir.expressions import Expr, Load, varies_over
from ..ir.guards import Bound
from ..ir.reading import element_type, elements_of
from .coalesce import Merged
from .scans import has_scans
from .schedule import ACCESS_BITS, Shift, bits
from .space import Space

MOST = 8  # elements
HALF_ACCESS_BITS = 64  # accesses that still move memory at full speed
LEAST_ACCESS_BITS = 32  # below which most of a warp's request is empty
CACHED = 16  # a tensor of more than this many times fewer elements than the largest is in a cache after its first reads
RAGGED = 1 << 18  # elements from which on accesses are whole though the last one is cut
SHIFTED = 256  # elements of a row from which on whole accesses are worth masks at its ends

Aligned = dict[ir.Value, int]
"""Bytes that the first element of a tensor in memory is known to be aligned to."""


@dataclass(frozen=True)
class Access:
    """A load or store.

    offset   index over the merged axes
    bits     of an element
    aligned  bytes that the memory starts at a multiple of
    touched  elements of all programs together
    """

    offset: Affine
    bits: int
    aligned: int
    touched: int

    @staticmethod
    def of(index: Affine, bits: int, aligned: int, merged: Merged) -> "Access":
        """Returns the access at `index`, an index over the axes before they were merged."""
        touched = typical(math.prod(t.extent for t, _ in index.terms if isinstance(t, Axis)))
        return Access(merged.index(index), bits, aligned, touched)


def accesses_of(
    space: Space, merged: Merged, aligned: Aligned, results: list[int], guarded: Callable[[Load], bool] = lambda _: False
) -> list[Access]:
    """Returns all loads, then all stores. results: alignments of the results in bytes; guarded: which loads under bounds count."""
    loads = [e for e in space.loads if not e.guard or guarded(e)]
    accesses = [Access.of(e.offset, bits(element_type(e.tensor)), aligned[e.tensor], merged) for e in loads]
    return accesses + [Access.of(r.offset, bits(r.dtype), a, merged) for r, a in zip(space.results, results, strict=True)]


def bounded_across(e: Load, merged: Merged, vector: Axis) -> bool:
    """Returns whether accesses along `vector` are whole or left out, except for the last one: no bound of the load varies along it,
    or just one at a symbolic end."""
    for bound in e.guard:
        index = merged.index(bound.index)
        varies = index.opaque or index.coefficient(vector) != 0
        if varies and not _ends(bound, index, vector, merged.quotients):
            return False
    return True


def _ends(bound: Bound, index: Affine, vector: Axis, quotients: Mapping[Expr, int]) -> bool:
    """Returns whether a bound, at this index over the merged axes, is an end that each call decides."""
    term, _ = rising_term(index, vector, quotients)
    if term is None or not is_symbolic(bound.high):
        return False
    rest = index + Affine(0, ((term, -1),))
    return not rest.opaque and at_most(bound.low, rest.bounds()[0])


def rising_term(index: Affine, axis: Axis, quotients: Mapping[Expr, int]) -> tuple[Axis | Expr | None, int]:
    """Returns the only term of an index that varies along an axis, if its coefficient is 1: the axis itself, or its quotient by the
    elements of a row in an axis of several rows; and for how many elements it stays the same. (None, 0) for other indices."""
    runs = [t for t, _ in index.terms if not isinstance(t, Axis)]
    if not runs:
        return (axis, 1) if index.coefficient(axis) == 1 else (None, 0)
    run = runs[0]
    if len(runs) > 1 or run not in quotients or index.coefficient(axis) or dict(index.terms)[run] != 1:
        return None, 0
    return (run, quotients[run]) if varies_over(Affine.of(run), (axis,)) else (None, 0)


def access_width(accesses: list[Access], vector: Axis, quotients: dict[Expr, int], ragged: bool = False) -> int:
    """Returns the most neighboring elements that are whole accesses: a power of two up to MOST. ragged: the last may be cut."""
    along = [a for a in accesses if a.offset.coefficient(vector) == 1]
    if not along:
        return 1
    width = _widest(along)
    while width > 1 and not all(is_whole(a, width, vector, quotients, ragged) for a in along):
        width //= 2
    runs = {quotients[t] for a in accesses for t, _ in a.offset.terms if t in quotients}
    half = width // 2
    if any(n % width for n in runs) and not any(n % half for n in runs) and half * min(a.bits for a in along) >= HALF_ACCESS_BITS:
        return half  # loads that vary only from run to run are done once per access
    return width


@dataclass(frozen=True)
class Flat:
    """Rows as one axis.

    width         of accesses along it, 0 where there can be none
    single        how many inputs are then read element by element, as a bias is, which comes from a cache
    large_single  those of them that are large, and whose rows are not contiguous in memory
    """

    width: int
    single: int = 0
    large_single: int = 0


def flat_width(space: Space, accesses: list[Access], axis: Axis, flat: Merged) -> Flat:
    """Returns the accesses along `axis`, which is several rows of `flat` as one axis."""
    results, quotients = accesses[len(accesses) - len(space.results) :], flat.quotients
    guards = [flat.index(b.index) for e in space.loads for b in e.guard]
    if has_scans(space) or any(t in quotients for at in guards for t, _ in at.terms) or any(_runs(a, quotients) for a in results):
        return Flat(0)
    for a in accesses:
        if a.offset.coefficient(axis) not in (0, 1) or len(_runs(a, quotients)) < sum(
            not isinstance(t, Axis) for t, _ in a.offset.terms
        ):
            return Flat(0)
    single = [a for a in accesses if a.offset.coefficient(axis) == 1 and _runs(a, quotients)]
    large = [a for a in single if 2 * a.touched >= max(b.touched for b in accesses)]
    width = access_width([a for a in accesses if a not in single], axis, quotients, may_cut_last_access(axis))
    return Flat(min(width, narrow_width(large, axis)) if large else width, len(single), len(large))


def _runs(a: Access, quotients: dict[Expr, int]) -> list[Expr]:
    return [t for t, _ in a.offset.terms if t in quotients]


def may_cut_last_access(axis: Axis) -> bool:
    """Returns whether the last access along the only axis of a program may be cut. This takes registers and code of every thread,
    and pays where memory bandwidth is the limit, as it may be where a call decides."""
    return typical(axis.extent) >= RAGGED or not is_bounded(axis.extent)


def _widest(along: list[Access]) -> int:
    """Returns the width to start from. Of the accesses that move most bytes, the largest type gets accesses of 16 bytes: two per
    thread would leave gaps between those of neighboring threads. The smallest type gets no tiny ones."""
    most = max(a.touched for a in along)
    heavy = [a.bits for a in along if a.touched * 2 >= most]
    return min(max(ACCESS_BITS // max(heavy), LEAST_ACCESS_BITS // min(heavy)), MOST)


def narrow_width(accesses: list[Access], vector: Axis) -> int:
    """Returns the width for elements read one by one, where neighboring threads should read neighboring elements."""
    along = [a.bits for a in accesses if a.offset.coefficient(vector) == 1]
    return max(LEAST_ACCESS_BITS // max(along, default=LEAST_ACCESS_BITS), 1)


def split_width(space: Space, accesses: list[Access], vector: Axis, quotients: dict[Expr, int]) -> int:
    """Returns the width of accesses that are whole for stores, if not for all loads; 1 where all loads are whole. The other loads
    are read element by element: neighboring elements by neighboring threads, or small tensors from a cache."""
    at, most = len(accesses) - len(space.results), max(a.touched for a in accesses)
    width = access_width(accesses[at:], vector, quotients)
    single = [a for a in accesses[:at] if a.offset.coefficient(vector) == 1 and not is_whole(a, width, vector, quotients)]
    large = [a for a in single if a.touched * 2 >= most]
    while width > 1 and not all(a.bits * width <= LEAST_ACCESS_BITS or is_whole(a, width, vector, quotients) for a in large):
        width //= 2
    return width if single else 1


def traffic_of(space: Space, merged: Merged, vector: Axis, large_single: int = 0) -> narrow.Traffic:
    """Returns the accesses of a kernel, guarded or not. large_single: see Flat."""
    varying = [e for e in space.loads if vector in merged.merged(e.free)]
    loads = [Access.of(e.offset, bits(element_type(e.tensor)), 0, merged) for e in varying]
    results = [Access.of(r.offset, bits(r.dtype), 0, merged) for r in space.results]
    most = max(a.touched for a in (*loads, *results))
    items = [max(a.bits // 8, 1) for a in (*loads, *results) if a.touched * 2 >= most and a.offset.coefficient(vector)] or [1]
    waited = [a.bits for e, a in zip(varying, loads, strict=True) if elements_of(e.tensor) * CACHED >= most]
    return narrow.Traffic(min(items), max(items), sum(waited) // 8, len(loads), large_single)


def unstrided_width(accesses: list[Access], vector: Axis) -> int:
    """Returns the largest width at which no access has a stride between neighboring elements: such a thread reads them one by one,
    and neighboring threads then read as far apart as all its elements reach."""
    strided = any(abs(typical(a.offset.coefficient(vector))) > 1 for a in accesses)
    return narrow_width(accesses, vector) if strided else MOST


def uncrossed_width(space: Space, merged: Merged, aligned: Aligned, accesses: list[Access], vector: Axis, width: int) -> int:
    """Returns the largest width, `width` at most, at which nothing is read element by element; that of narrow accesses where
    something always is."""
    least = min(width, narrow_width(accesses, vector))
    while width > least and _crossing(space, merged, aligned, vector, width):
        width //= 2
    return width


def _crossing(space: Space, merged: Merged, aligned: Aligned, vector: Axis, width: int) -> bool:
    """Returns whether something is read element by element: with a stride, backwards, at computed indices, across the bounds of a
    guard, or within them at indices that are not aligned."""
    for e in space.loads:
        index = merged.index(e.offset)
        own = merged.merged(a for t, _ in index.terms if not isinstance(t, Axis) and t not in merged.quotients for a in t.free)
        if index.coefficient(vector) not in (0, 1) or vector in own:
            return True
        access = Access.of(e.offset, bits(element_type(e.tensor)), aligned[e.tensor], merged)
        if e.guard and index.coefficient(vector) == 1 and not _starts(access, width, vector):
            return True
        guarded = [(merged.index(b.index), b) for b in e.guard]
        for place, b in guarded:
            if place.coefficient(vector) == 0:
                continue
            offsets = (place.constant, b.low, b.high, *(c for t, c in place.terms if t is not vector))
            if place.coefficient(vector) != 1 or any(n % width for n in offsets):
                return True
    return False


def shift_of(accesses: list[Access], vector: Axis, width: int) -> Shift | None:
    """Returns how whole accesses fit rows that end or start in the middle of them; None if rows fit at `width` anyway, or
    cannot."""
    # loads that all rows share come from a cache
    along = [a for a in accesses if a.offset.coefficient(vector) == 1 and len(a.offset.terms) > 1]
    if typical(vector.extent) < SHIFTED or not along or width * max(a.bits for a in along) >= HALF_ACCESS_BITS:
        return None
    shift = Shift(along[0].offset + Affine.of(vector, -1), _widest(along))
    if shift.base.opaque:
        return None
    for a in along:
        step = shift.step(a.bits)
        if a.aligned % (step * a.bits // 8) or not shift.meets(a.offset, vector, step):
            return None
    return shift


def whole_inputs(accesses: list[Access], results: int) -> int:
    """Returns how many of the loads, which come before the `results` stores, are as large as the largest access."""
    most = max((a.touched for a in accesses), default=0)
    return sum(a.touched * 2 >= most for a in accesses[: len(accesses) - results])


def is_whole(a: Access, width: int, vector: Axis, quotients: dict[Expr, int], ragged: bool = False) -> bool:
    """Returns whether `width` elements from every multiple of `width` along `vector` are aligned accesses, and no row, except for
    one that may be ragged, or run ends in the middle of one."""
    if (vector.extent % width and not ragged) or any(quotients[t] % width for t in _runs(a, quotients)):
        return False
    return _starts(a, width, vector)


def _starts(a: Access, width: int, vector: Axis) -> bool:
    """Returns whether every multiple of `width` along `vector` is the start of an aligned access."""
    step = min(width, max(ACCESS_BITS // a.bits, 1))  # elements of one access
    if a.aligned * 8 % (step * a.bits):
        return False
    return a.offset.constant % step == 0 and all(c % step == 0 for t, c in a.offset.terms if t is not vector)
