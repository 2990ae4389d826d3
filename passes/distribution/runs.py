"""tile.read_runs and tile.write_runs: lanes whose places jump from run to run.

Where the runs' lengths are multiples of `vec`, no access crosses the end of one: a division for each access says where it is, and
lanes that differ from run to run alone are one element. Where runs are as long as an access at least, these are one of two. Else
every element has a place of its own.
"""

import math
from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, vector

from lamina.core.errors import CompileError

from .values import Bound, Spread, Window, as_spread, element_of, together, vector_type

if TYPE_CHECKING:
    from .kernel import Kernel


def read(k: "Kernel", op: ir.Operation) -> None:
    source, first, start, mask = op.operands
    buffer, held = k.uniform(source), k.mask(mask)
    along = ir.IntegerAttr(op.attributes["along"]).value
    assert not isinstance(held, Window)
    whole = _whole(k, op, start)
    if not whole and not along and not isinstance(held, Spread) and all(n >= k.shape.vec for n, _ in _runs(op)):
        k.held[op.results[0]] = _of_two(k, op, held)
        return
    if not whole or isinstance(held, Spread):
        k.held[op.results[0]] = _elements(k, op, along, held)
        return
    if along:
        places = [_place(k, op, along, c, 0) for c in range(k.shape.chunks)]
        k.held[op.results[0]] = k.memory.read(buffer, places, _divisor(k, op, first), held, _zero(buffer), padded=False)
        return
    parts = []
    for c in range(k.shape.chunks):
        one = _element(k, op, c, 0, held)
        parts.append(vector.broadcast(vector_type(k.shape.vec, one.type), one))
    k.held[op.results[0]] = Spread(tuple(parts))


def _element(k: "Kernel", op: ir.Operation, chunk: int, lane: int, mask: Bound | None) -> ir.Value:
    """What a run that an access meets has for all its lanes."""
    place, wanted = _place(k, op, 0, chunk, lane), mask.inside[chunk] if mask else None
    at = place if wanted is None else arith.select(wanted, place, k.at.number(0))
    return memref.load(k.uniform(op.operands[0]), [at])


def _of_two(k: "Kernel", op: ir.Operation, mask: Bound | None) -> Spread:
    """Accesses that meet two runs at most."""
    start, shortest = k.uniform(op.operands[2]), min(length for length, _ in _runs(op))
    parts = []
    for c, own in enumerate(k.offsets):
        lane = k.at.add(own, start)
        end = k.at.times(k.at.add(k.at.over(lane, shortest), 1), shortest)
        here, there = (_element(k, op, c, i, mask) for i in (0, k.shape.vec - 1))
        before = [k.at.below(k.at.add(lane, i), end) for i in range(k.shape.vec)]
        parts.append(together([arith.select(p, here, there) for p in before]))
    return Spread(tuple(parts))


def write(k: "Kernel", op: ir.Operation) -> None:
    value, target, first, start, mask = op.operands
    if not _whole(k, op, start):
        raise CompileError(f"accesses of {k.shape.vec} elements would cross runs: {op}", where=str(op.location))
    places = [_place(k, op, 1, c, 0) for c in range(k.shape.chunks)]
    k.memory.write(k.spread(value), k.uniform(target), places, _divisor(k, op, first), k.mask(mask))


def _elements(k: "Kernel", op: ir.Operation, along: int, mask: Bound | Spread | None) -> Spread:
    """Lanes read one by one."""
    buffer = k.uniform(op.operands[0])
    if isinstance(mask, Bound):
        mask = as_spread(mask, k.shape.vec)
    chunks, vec = range(k.shape.chunks), k.shape.vec
    places = Spread(tuple(together([_place(k, op, along, c, i) for i in range(vec)]) for c in chunks))
    none = vector.broadcast(vector_type(vec, element_of(op.results[0].type)), _zero(buffer))
    return k.memory.gather(buffer, places, mask, Spread((none,) * k.shape.chunks))


def _place(k: "Kernel", op: ir.Operation, along: int, chunk: int, lane: int) -> ir.Value:
    """Where a lane of one of the thread's accesses is in memory."""
    *_, first, start, _ = op.operands
    first, start = k.uniform(first), k.uniform(start)
    own = k.at.add(k.offsets[chunk], lane)
    place = k.at.add(first, own) if along else first
    for length, jump in _runs(op):
        run = k.at.over(k.at.add(own, start), length)
        place = arith.addi(place, arith.muli(run, k.at.number(jump)))
    return place


def _runs(op: ir.Operation) -> list[tuple[int, int]]:
    lengths, jumps = ([ir.IntegerAttr(n).value for n in op.attributes[name]] for name in ("lengths", "jumps"))
    return list(zip(lengths, jumps, strict=True))


def _whole(k: "Kernel", op: ir.Operation, start: ir.Value) -> bool:
    return all(length % k.shape.vec == 0 for length, _ in _runs(op)) and k.divisors.of(start) % k.shape.vec == 0


def _divisor(k: "Kernel", op: ir.Operation, first: ir.Value) -> int:
    return math.gcd(k.divisors.of(first), *(jump for _, jump in _runs(op)))


def _zero(buffer: ir.Value) -> ir.Value:
    type_ = ir.MemRefType(buffer.type).element_type
    return arith.constant(type_, 0.0 if isinstance(type_, ir.FloatType) else 0)
