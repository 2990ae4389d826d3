"""From a space to programs on a GPU: which axis is spread over threads, how wide their accesses are, what makes the grid."""

import math

from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.schedules import nvvm

from .affine import Affine, Axis
from .coalesce import Merged, coalesce
from .expressions import Expr, Load, Scan
from .flatten import flatten
from .grouping import walk
from .nests import nests_of
from .reading import element_type
from .schedule import ACCESS_BITS, Schedule, Shift, bits, by_stride, crossed_axis, vector_axis
from .space import Space

CLUSTER = 8  # CTAs that every GPU with clusters can put together
ACCESS_BYTES = ACCESS_BITS // 8
HALF_ACCESS_BITS = 64  # accesses that still move memory at full speed
SHIFTED = 256  # elements of a row from which on whole accesses are worth masks at its ends

Aligned = dict[ir.Value, int]
"""Bytes that the first element of a tensor in memory is known to be aligned to."""


def schedule_gpu(space: Space, aligned: Aligned, results: list[int], device: Gpu) -> Schedule:
    """The first schedule of a space. results: alignment of each result's memory, in bytes."""
    merged = coalesce(*by_stride(space), space.places())
    vector = vector_axis(space, merged)
    if vector is None:
        return Schedule(nvvm.scalar(), merged, None, merged.rows, None, 0, ())
    crossed = crossed_axis(space, merged, vector)
    if len(merged.columns) > 1 and vector is merged.columns[-1] and not _scans(space):
        merged, vector = flatten(merged, merged.columns)
    vec = access_width(space, merged, vector, aligned, results)
    rows = math.prod(a.extent for a in merged.rows if a is not vector)
    if vector in merged.columns:
        shift = _shift(space, merged, vector, vec, aligned, results)
        lanes, vec = (vector.extent + shift.width - 1, shift.width) if shift is not None else (vector.extent, vec)
        config = _along_rows(space, merged, lanes, vec, rows, device)
        return Schedule(config, merged, vector, merged.rows, None, 0, (), None, shift)
    if crossed is not None:
        config = nvvm.squares(vec)
    elif space.columns:
        config = nvvm.column_reduction(vector.extent, vec, math.prod(a.extent for a in merged.columns))
    else:
        config = nvvm.pointwise(vector.extent, vec, rows)
    outer = tuple(a for a in merged.rows if a is not vector and a is not crossed)
    return Schedule(config, merged, vector, outer, vector, config.lanes, (), crossed)


def _along_rows(space: Space, merged: Merged, lanes: int, vec: int, rows: int, device: Gpu) -> nvvm.Config:
    walks = nests_of(space, merged.columns, [(r, None) for r in space.results], online=True)
    if len(walks) == 1 and lanes * rows > nvvm.BUSY * device.sm_count * vec:
        return nvvm.row_walk(lanes, vec)
    return nvvm.row_reduction(lanes, vec, rows, device.sm_count, _ctas(merged, device))


def _shift(space: Space, merged: Merged, vector: Axis, vec: int, aligned: Aligned, results: list[int]) -> Shift | None:
    """How whole accesses fit to rows that end or start amid them; None where they do so anyway, or cannot."""
    along = [a for a in _accesses(space, merged, aligned, results) if a[0].coefficient(vector) == 1]
    of_rows = [a for a in along if len(a[0].terms) > 1]  # what is the same for all rows comes from a cache
    if merged.quotients or len(merged.columns) != 1 or _scans(space) or vector.extent < SHIFTED or not of_rows:
        return None
    shift = Shift(of_rows[0][0] + Affine.of(vector, -1), max(min(ACCESS_BITS // b, 8) for _, b, _ in of_rows))
    if vec * max(b for _, b, _ in of_rows) >= HALF_ACCESS_BITS or shift.base.opaque:
        return None
    for at, b, known in of_rows:
        step = shift.step(b)
        if known % (step * b // 8) or not shift.meets(at, vector, step):
            return None
    return shift


def access_width(space: Space, merged: Merged, vector: Axis, aligned: Aligned, results: list[int]) -> int:
    """Neighbouring elements that one thread can read and write in whole accesses: a power of two up to 8."""
    accesses = _accesses(space, merged, aligned, results)
    along = [(at, b, a) for at, b, a in accesses if at.coefficient(vector) == 1]
    if _scans(space) or not along:
        return 1
    width = max(min(ACCESS_BYTES * 8 // b, 8) for _, b, _ in along)
    while width > 1 and not all(_whole(at, b, a, width, vector, merged.quotients) for at, b, a in along):
        width //= 2
    runs = {merged.quotients[t] for at, _, _ in accesses for t, _ in at.terms if t in merged.quotients}
    half = width // 2
    if any(n % width for n in runs) and not any(n % half for n in runs) and half * min(b for _, b, _ in along) >= HALF_ACCESS_BITS:
        return half  # what differs from run to run alone is read once for each access
    return width


def _accesses(space: Space, merged: Merged, aligned: Aligned, results: list[int]) -> list[tuple[Affine, int, int]]:
    """Index, bits of an element and alignment of all that is read without a guard, and of all that is written."""
    accesses = [
        (e.at.rename(merged.rename), bits(element_type(e.tensor)), aligned[e.tensor])
        for e in dict.fromkeys(e for r in space.results for e in walk(r.expr))
        if isinstance(e, Load) and not e.guard
    ]
    return accesses + [(r.at.rename(merged.rename), bits(r.dtype), a) for r, a in zip(space.results, results, strict=True)]


def _scans(space: Space) -> bool:
    return any(isinstance(e, Scan) for r in space.results for e in walk(r.expr))


def _whole(at: Affine, width_bits: int, aligned: int, width: int, vector: Axis, quotients: dict[Expr, int]) -> bool:
    """Whether `width` elements from every multiple of `width` along `vector` are aligned accesses, and no row or run ends amid
    one."""
    size = width_bits // 8
    step = min(width, max(ACCESS_BYTES // size, 1))  # elements of one access
    if vector.extent % width or aligned % (step * size) or any(quotients[t] % width for t, _ in at.terms if t in quotients):
        return False
    return at.constant % step == 0 and all(c % step == 0 for t, c in at.terms if t is not vector)


def _ctas(merged: Merged, device: Gpu) -> int:
    """CTAs that one program may have: those of a portable cluster, where a row is one run of memory."""
    return CLUSTER if device.capability >= 90 and len(merged.columns) == 1 else 1
