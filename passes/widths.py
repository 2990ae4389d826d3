"""How many neighbouring elements a thread of a GPU reads and writes at a time."""

import math
from dataclasses import dataclass

from torch_mlir import ir

from .affine import Affine, Axis
from .coalesce import Merged
from .expressions import Expr, Load, Scan
from .grouping import walk
from .reading import element_type
from .schedule import ACCESS_BITS, Shift, bits
from .space import Space

MOST = 8  # elements
HALF_ACCESS_BITS = 64  # accesses that still move memory at full speed
LEAST_ACCESS_BITS = 32  # below which most of a request of a warp is empty
SHIFTED = 256  # elements of a row from which on whole accesses are worth masks at its ends

Aligned = dict[ir.Value, int]
"""Bytes that the first element of a tensor in memory is known to be aligned to."""


@dataclass(frozen=True)
class Access:
    """at: index over the merged axes; bits: of an element; aligned: bytes that the memory starts at a multiple of."""

    at: Affine
    bits: int
    aligned: int

    @property
    def touched(self) -> int:
        return math.prod(t.extent for t, _ in self.at.terms if isinstance(t, Axis))


def accesses_of(space: Space, merged: Merged, aligned: Aligned, results: list[int]) -> list[Access]:
    """All that is read without a guard, and all that is written. results: alignments of their memory."""
    accesses = [
        Access(e.at.rename(merged.rename), bits(element_type(e.tensor)), aligned[e.tensor]) for e in _loads(space) if not e.guard
    ]
    return accesses + [Access(r.at.rename(merged.rename), bits(r.dtype), a) for r, a in zip(space.results, results, strict=True)]


def access_width(accesses: list[Access], vector: Axis, quotients: dict[Expr, int]) -> int:
    """The most neighbouring elements that are whole accesses: a power of two up to MOST."""
    along = [a for a in accesses if a.at.coefficient(vector) == 1]
    if not along:
        return 1
    width = _widest(along)
    while width > 1 and not all(_whole(a, width, vector, quotients) for a in along):
        width //= 2
    runs = {quotients[t] for a in accesses for t, _ in a.at.terms if t in quotients}
    half = width // 2
    if any(n % width for n in runs) and not any(n % half for n in runs) and half * min(a.bits for a in along) >= HALF_ACCESS_BITS:
        return half  # what differs from run to run alone is read once for each access
    return width


def flat_width(space: Space, accesses: list[Access], axis: Axis, quotients: dict[Expr, int]) -> int:
    """The width of accesses along all rows as one axis; 0 where not all that differs from lane to lane is one run of memory."""
    simple = all(not e.guard for e in _loads(space)) and not has_scans(space)
    for a in accesses:
        runs = [t for t, _ in a.at.terms if t in quotients]
        if a.at.opaque and len(runs) < sum(not isinstance(t, Axis) for t, _ in a.at.terms):
            simple = False
        if a.at.coefficient(axis) not in (0, 1) or (a.at.coefficient(axis) == 1 and runs):
            simple = False
    return access_width(accesses, axis, quotients) if simple else 0


def _widest(along: list[Access]) -> int:
    """Of what moves most bytes, the largest type has accesses of 16 bytes: two of one thread would leave gaps between those of its
    neighbours. The smallest has no tiny ones."""
    most = max(a.touched for a in along)
    heavy = [a.bits for a in along if a.touched * 2 >= most]
    return min(max(ACCESS_BITS // max(heavy), LEAST_ACCESS_BITS // min(heavy)), MOST)


def narrow_width(accesses: list[Access], vector: Axis) -> int:
    """Where elements are read one by one, neighbouring threads should read neighbours."""
    along = [a.bits for a in accesses if a.at.coefficient(vector) == 1]
    return max(LEAST_ACCESS_BITS // max(along, default=LEAST_ACCESS_BITS), 1)


def crossing_accesses(space: Space, merged: Merged, vector: Axis, width: int) -> bool:
    """Whether something is read element by element: in steps, backwards, at computed places, or across the bounds of a guard."""
    for e in _loads(space):
        at = e.at.rename(merged.rename)
        own = {
            merged.axis_of.get(a, a) for t, _ in at.terms if not isinstance(t, Axis) and t not in merged.quotients for a in t.free
        }
        if at.coefficient(vector) not in (0, 1) or vector in own:
            return True
        guarded = [(b.at.rename(merged.rename), b) for b in e.guard]
        for place, b in guarded:
            if place.coefficient(vector) == 0:
                continue
            offsets = (place.constant, b.low, b.high, *(c for t, c in place.terms if t is not vector))
            if place.coefficient(vector) != 1 or any(n % width for n in offsets):
                return True
    return False


def shift_of(accesses: list[Access], vector: Axis, width: int) -> Shift | None:
    """How whole accesses fit to rows that end or start amid them; None where they do so anyway at `width`, or cannot."""
    along = [a for a in accesses if a.at.coefficient(vector) == 1 and len(a.at.terms) > 1]  # what all rows share comes from a cache
    if vector.extent < SHIFTED or not along or width * max(a.bits for a in along) >= HALF_ACCESS_BITS:
        return None
    shift = Shift(along[0].at + Affine.of(vector, -1), _widest(along))
    if shift.base.opaque:
        return None
    for a in along:
        step = shift.step(a.bits)
        if a.aligned % (step * a.bits // 8) or not shift.meets(a.at, vector, step):
            return None
    return shift


def whole_inputs(accesses: list[Access], results: int) -> int:
    """How many of what is read, which comes before the results, are as large as the largest."""
    most = max((a.touched for a in accesses), default=0)
    return sum(a.touched * 2 >= most for a in accesses[: len(accesses) - results])


def scanned_axis(space: Space, merged: Merged) -> Axis | None:
    """The axis that scans step along, where results are neighbours along it and nothing else is a column."""
    scans = {merged.axis_of.get(e.axis, e.axis) for r in space.results for e in walk(r.expr) if isinstance(e, Scan)}
    if len(scans) != 1 or set(merged.columns) != scans:
        return None
    (axis,) = scans
    return axis if all(r.at.rename(merged.rename).coefficient(axis) == 1 for r in space.results if r.full) else None


def has_scans(space: Space) -> bool:
    return any(isinstance(e, Scan) for r in space.results for e in walk(r.expr))


def _loads(space: Space) -> list[Load]:
    return [e for e in dict.fromkeys(e for r in space.results for e in walk(r.expr)) if isinstance(e, Load)]


def _whole(a: Access, width: int, vector: Axis, quotients: dict[Expr, int]) -> bool:
    """Whether `width` elements from every multiple of `width` along `vector` are aligned accesses, and no row or run ends amid
    one."""
    step = min(width, max(ACCESS_BITS // a.bits, 1))  # elements of one access
    if (
        vector.extent % width
        or a.aligned * 8 % (step * a.bits)
        or any(quotients[t] % width for t, _ in a.at.terms if t in quotients)
    ):
        return False
    return a.at.constant % step == 0 and all(c % step == 0 for t, c in a.at.terms if t is not vector)
