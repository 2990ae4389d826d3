"""Lowers tile.read_runs, tile.read_shared and tile.write_runs: lanes whose addresses jump from run to run.

Where the runs' lengths are multiples of `vec`, no access crosses the end of one: each access takes one division to find its
address, and lanes that differ from run to run alone are one element. Where runs are as long as an access at least, an access has
elements of two runs at most. Otherwise every element has an address of its own.
"""

import math
from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, vector

from lamina.core.errors import CompileError

from ...ir.locations import where
from ...ir.reading import element_of, integer, number_of
from .memory import Mask
from .values import Spread, WholeMask, WindowMask, as_spread, elements, vector_of, vector_type

if TYPE_CHECKING:
    from .kernel import ThreadKernel

_WHOLE = "give the function a tile.vec that divides the runs' lengths and starts"


def read(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers tile.read_runs."""
    source, first, start, mask = op.operands
    buffer, mask_value = k.uniform(source), k.mask(mask)
    along = integer(op, "along")
    whole = _starts_whole(k, op, start)
    if not whole and not along and not isinstance(mask_value, Spread) and all(n >= k.shape.vec for n, _ in _runs(op)):
        k.values[op.results[0]] = _read_two_runs(k, op, mask_value)
        return
    if not whole or isinstance(mask_value, Spread | WindowMask):
        k.values[op.results[0]] = _elements(k, op, along, mask_value)
        return
    if along:
        places = [_place(k, op, along, own) for own in k.offsets]
        k.values[op.results[0]] = k.memory.read(buffer, places, _divisor(k, op, first), mask_value, _zero(buffer), padded=False)
        return
    parts = []
    for own, wanted in zip(k.offsets, _wanted(k, mask_value), strict=True):
        one = _element(k, op, own, wanted)
        parts.append(vector.broadcast(vector_type(k.shape.vec, one.type), one))
    k.values[op.results[0]] = Spread(tuple(parts))


def _wanted(k: "ThreadKernel", mask: WholeMask | None) -> tuple[ir.Value | None, ...]:
    return mask.inside if mask else (None,) * k.shape.chunks


def _element(k: "ThreadKernel", op: ir.Operation, own: ir.Value, wanted: ir.Value | None) -> ir.Value:
    """Loads the element that all lanes of a run share; zero where not wanted, since it may be outside of an image."""
    place, buffer = _place(k, op, 0, own), k.uniform(op.operands[0])
    if wanted is None:
        return memref.load(buffer, [place])
    return arith.select(wanted, memref.load(buffer, [arith.select(wanted, place, k.index_ops.number(0))]), _zero(buffer))


def _read_two_runs(k: "ThreadKernel", op: ir.Operation, mask: WholeMask | WindowMask | None) -> Spread:
    """Loads accesses that meet two runs at most: those of their first and of their last lane that counts."""
    start, shortest = k.uniform(op.operands[2]), min(length for length, _ in _runs(op))
    parts = []
    wanted = (None,) * k.shape.chunks if isinstance(mask, WindowMask) else _wanted(k, mask)
    for c, own in enumerate(k.offsets):
        first, last = own, k.index_ops.add(own, k.shape.vec - 1)
        if isinstance(mask, WindowMask) and mask.parts[c] is not None:
            top = arith.subi(mask.high, k.index_ops.number(1))
            first, last = arith.minsi(arith.maxsi(first, mask.low), top), arith.minsi(last, top)
        end = k.index_ops.times(k.index_ops.add(k.index_ops.over(arith.addi(first, start), shortest), 1), shortest)
        here, there = _element(k, op, first, wanted[c]), _element(k, op, last, wanted[c])
        lanes = [arith.addi(k.index_ops.add(own, i), start) for i in range(k.shape.vec)]
        before = [arith.cmpi(arith.CmpIPredicate.slt, lane, end) for lane in lanes]
        parts.append(vector_of([arith.select(p, here, there) for p in before]))
    return Spread(tuple(parts))


def read_shared(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers tile.read_shared to one access per run, whose elements are converted once for all lanes of a thread. Raises
    CompileError where a thread's lanes may be of two runs."""
    source, first, start, inside = op.operands
    length, jump = (integer(op, name) for name in ("length", "jump"))
    if length % k.shape.vec or k.divisors.of(start) % k.shape.vec:
        raise CompileError(f"accesses of {k.shape.vec} elements would cross runs: {op}", where=where(op.location), remedy=_WHOLE)
    buffer, count, wanted = k.uniform(source), len(op.results), None if number_of(inside) else k.uniform(inside)
    shared: list[list[ir.Value]] = []
    for own in k.offsets:
        run = k.index_ops.over(arith.addi(k.uniform(start), own), length)
        place = arith.addi(k.uniform(first), arith.muli(run, k.index_ops.number(jump)))
        start = place if wanted is None else arith.select(wanted, place, k.index_ops.number(0))
        read = k.memory.load(buffer, start, count, math.gcd(k.divisors.of(first), jump))
        if wanted is not None:
            read = arith.select(wanted, read, vector.broadcast(read.type, _zero(buffer)))
        wide = vector_type(count, element_of(op.results[0].type))
        read = read if read.type == wide else arith.extf(wide, read)
        shared.append([vector.broadcast(vector_type(k.shape.vec, e.type), e) for e in elements(read)])
    k.values.update((result, Spread(parts)) for result, parts in zip(op.results, zip(*shared, strict=True), strict=True))


def write(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers tile.write_runs. Raises CompileError if an access may cross the end of a run."""
    value, target, first, start, mask = op.operands
    if not _starts_whole(k, op, start):
        raise CompileError(f"accesses of {k.shape.vec} elements would cross runs: {op}", where=where(op.location), remedy=_WHOLE)
    places = [_place(k, op, 1, own) for own in k.offsets]
    k.memory.write(k.spread(value), k.uniform(target), places, _divisor(k, op, first), k.mask(mask))


def _elements(k: "ThreadKernel", op: ir.Operation, along: int, mask: Mask) -> Spread:
    """Loads lanes one by one."""
    buffer = k.uniform(op.operands[0])
    if isinstance(mask, WholeMask | WindowMask):
        mask = as_spread(mask, k.shape.vec)
    vec = k.shape.vec
    places = Spread(tuple(vector_of([_place(k, op, along, k.index_ops.add(own, i)) for i in range(vec)]) for own in k.offsets))
    none = vector.broadcast(vector_type(vec, element_of(op.results[0].type)), _zero(buffer))
    return k.memory.gather(buffer, places, mask, Spread((none,) * k.shape.chunks))


def _place(k: "ThreadKernel", op: ir.Operation, along: int, own: ir.Value) -> ir.Value:
    """Returns the index in memory of lane `own`."""
    *_, first, start, _ = op.operands
    first, start = k.uniform(first), k.uniform(start)
    place = arith.addi(first, own) if along else first
    for length, jump in _runs(op):
        run = k.index_ops.over(arith.addi(own, start), length)
        place = arith.addi(place, arith.muli(run, k.index_ops.number(jump)))
    return place


def _runs(op: ir.Operation) -> list[tuple[int, int]]:
    lengths, jumps = ([ir.IntegerAttr(n).value for n in op.attributes[name]] for name in ("lengths", "jumps"))
    return list(zip(lengths, jumps, strict=True))


def _starts_whole(k: "ThreadKernel", op: ir.Operation, start: ir.Value) -> bool:
    return all(length % k.shape.vec == 0 for length, _ in _runs(op)) and k.divisors.of(start) % k.shape.vec == 0


def _divisor(k: "ThreadKernel", op: ir.Operation, first: ir.Value) -> int:
    return math.gcd(k.divisors.of(first), *(jump for _, jump in _runs(op)))


def _zero(buffer: ir.Value) -> ir.Value:
    type_ = ir.MemRefType(buffer.type).element_type
    return arith.constant(type_, 0.0 if isinstance(type_, ir.FloatType) else 0)
