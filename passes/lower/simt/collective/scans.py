"""Lowers tile.scan and tile.recurrence: prefixes of a block in the order of its lanes: accesses, then threads, then the elements of
a thread.

A thread computes the prefixes of its own elements. The lanes of a warp exchange their totals by shuffles of doubling distance,
and the warps through shared memory. All accesses share one exchange. What is joined is a tuple of values: a recurrence joins runs
of steps, each the product of its factors and what it makes of 0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from lamina.dialects.combining import LOG_SUM

from ....ir.reading import neutral_element
from ..threads import emit_if
from ..values import Spread, binary_op, elements, vector_of
from .online import exp

if TYPE_CHECKING:
    from ..kernel import ThreadKernel

Run = tuple[ir.Value, ...]
JoinRuns = Callable[[Run, Run], Run]


@dataclass(frozen=True)
class Runs:
    """The operation of a scan: how the results of two adjacent runs of elements are joined.

    carry     the run before the block
    none      a run of no elements
    join      of a run and of the one after it
    value     the value of a run
    commutes  whether the order of the two does not matter
    """

    carry: Run
    none: Run
    join: JoinRuns
    value: Callable[[Run], ir.Value]
    commutes: bool


def scan(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers one tile.scan: to the block of prefixes and the next block's carry."""
    name, carry = ir.StringAttr(op.attributes["combine"]).value, k.uniform(op.operands[1])
    none = arith.constant(carry.type, neutral_element(name, str(carry.type)))
    if name == LOG_SUM:
        one, nothing = (arith.constant(carry.type, n) for n in (1.0, 0.0))
        own = [[(x[0], one) for x in access] for access in _elements(k, op.operands[:1])]
        _scan(k, op, own, Runs((carry, one), (none, nothing), _join_log_sums, _log_sum, True))
        return
    join = binary_op(name)
    _scan(k, op, _elements(k, op.operands[:1]), Runs((carry,), (none,), lambda a, b: (join(a[0], b[0]),), _last, True))


def recurrence(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers one tile.recurrence: to the block of its steps and the next block's carry."""
    x, decay, start = op.operands
    carry = k.uniform(start)
    none = (arith.constant(carry.type, 1.0), arith.constant(carry.type, 0.0))

    def join(a: Run, b: Run) -> Run:
        """Composes two runs of the recurrence."""
        return arith.mulf(a[0], b[0]), arith.addf(arith.mulf(a[1], b[0]), b[1])

    _scan(k, op, _elements(k, (decay, x)), Runs((none[0], carry), none, join, _last, False))


def _join_log_sums(a: Run, b: Run) -> Run:
    """Joins maxima and the sums of exponentials relative to them, of which only those of the lesser maximum change."""
    largest, same = arith.maximumf(a[0], b[0]), arith.cmpf(arith.CmpFPredicate.OEQ, a[0], b[0])
    difference = arith.subf(arith.minimumf(a[0], b[0]), largest)
    difference = arith.select(same, arith.constant(largest.type, 0.0), difference)  # equal infinities have none
    first = arith.cmpf(arith.CmpFPredicate.OGT, a[0], b[0])
    kept, scaled = arith.select(first, a[1], b[1]), arith.select(first, b[1], a[1])
    return largest, arith.addf(kept, arith.mulf(scaled, exp(difference)))


def _log_sum(run: Run) -> ir.Value:
    return arith.addf(run[0], ir.Operation.create("math.log", results=[run[1].type], operands=[run[1]]).results[0])


def _last(run: Run) -> ir.Value:
    return run[-1]


def _scan(k: "ThreadKernel", op: ir.Operation, accesses: list[list[Run]], by: Runs) -> None:
    """Sets the op's results: the values of all prefixes, and of the carry after them."""
    own = [_prefixes(runs, by.join) for runs in accesses]
    lanes = [_among_lanes(k, prefixes[-1], by) for prefixes in own]
    starts, following = _among_warps(k, [total for _, total in lanes], by.carry, by.join)
    parts = []
    for prefixes, (before, _), start in zip(own, lanes, starts, strict=True):
        first = by.join(start, before)
        parts.append(vector_of([by.value(by.join(first, p)) for p in prefixes]))
    k.values[op.results[0]], k.values[op.results[1]] = Spread(tuple(parts)), by.value(following)


def _elements(k: "ThreadKernel", blocks: Sequence[ir.Value]) -> list[list[Run]]:
    """Returns the elements of each access, as tuples of those of the blocks."""
    accesses = zip(*(k.spread(b).parts for b in blocks), strict=True)
    return [list(zip(*map(elements, parts), strict=True)) for parts in accesses]


def _prefixes(values: list[Run], join: JoinRuns) -> list[Run]:
    out = values[:1]
    for v in values[1:]:
        out.append(join(out[-1], v))
    return out


def _select(condition: ir.Value, yes: Run, no: Run) -> Run:
    return tuple(arith.select(condition, a, b) for a, b in zip(yes, no, strict=True))


def _among_lanes(k: "ThreadKernel", own: Run, by: Runs) -> tuple[Run, Run]:
    """Returns the total of the warp's lanes before this one, and that of all."""
    before, total, step = by.none, own, 1
    while step < min(k.shape.threads, k.shape.warp):
        other = tuple(k.exchange.from_lane(t, step) for t in total)
        upper = arith.cmpi(arith.CmpIPredicate.ne, arith.andi(k.thread, k.index_ops.number(step)), k.index_ops.number(0))
        before = _select(upper, by.join(other, before), before)
        joined = by.join(other, total)
        total = joined if by.commutes else _select(upper, joined, by.join(total, other))
        step *= 2
    return before, total


def _among_warps(k: "ThreadKernel", totals: list[Run], carry: Run, join: JoinRuns) -> tuple[list[Run], Run]:
    """Returns the result of everything before this warp's part of each access, and the carry after all accesses."""
    index_ops, warps, starts = k.index_ops, max(k.shape.threads // k.shape.warp, 1), []
    if warps == 1:
        for total in totals:
            starts.append(carry)
            carry = join(carry, total)
        return starts, carry
    lane, warp = index_ops.modulo(k.thread, k.shape.warp), index_ops.over(k.thread, k.shape.warp)
    slots = [k.shared(warps * len(totals), v.type) for v in carry]
    numbered = list(enumerate(totals))

    def store() -> None:
        """Stores the totals of this warp."""
        for c, total in numbered:
            for v, slot in zip(total, slots, strict=True):
                memref.store(v, slot, [index_ops.add(warp, c * warps)])

    k.exchange.share(lambda: emit_if(index_ops.below(lane, 1), store))
    for c in range(len(totals)):
        start = carry
        for w in range(warps):
            start = carry if w == 0 else _select(index_ops.below(warp, w), start, carry)
            carry = join(carry, tuple(memref.load(slot, [index_ops.number(c * warps + w)]) for slot in slots))
        starts.append(start)
    return starts, carry
