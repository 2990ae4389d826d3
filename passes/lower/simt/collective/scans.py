"""Lowers tile.scan and tile.recurrence: prefixes of a block in the order of its lanes: accesses, then threads, then the elements of
a thread.

A thread computes the prefixes of its own elements. The lanes of a warp exchange their totals by shuffles of doubling distance,
and the warps through shared memory. All accesses share one exchange. What is joined is a tuple of values: a recurrence joins runs
of steps, each the product of its factors and what it makes of 0.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from ....ir.reading import neutral
from ..threads import when
from ..values import Spread, elements, joining, together

if TYPE_CHECKING:
    from ..kernel import ThreadKernel

Run = tuple[ir.Value, ...]
JoinRuns = Callable[[Run, Run], Run]


def scan(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers one tile.scan: to the block of prefixes and the next block's carry."""
    name = ir.StringAttr(op.attributes["combine"]).value
    join, carry = joining(name), k.uniform(op.operands[1])
    none = arith.constant(carry.type, neutral(name, str(carry.type)))
    _scan(k, op, op.operands[:1], (carry,), (none,), lambda a, b: (join(a[0], b[0]),))


def recurrence(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers one tile.recurrence: to the block of its steps and the next block's carry."""
    x, decay, start = op.operands
    carry = k.uniform(start)
    none = (arith.constant(carry.type, 1.0), arith.constant(carry.type, 0.0))

    def join(a: Run, b: Run) -> Run:
        """Composes two runs of the recurrence."""
        return arith.mulf(a[0], b[0]), arith.addf(arith.mulf(a[1], b[0]), b[1])

    _scan(k, op, (decay, x), (none[0], carry), none, join)


def _scan(k: "ThreadKernel", op: ir.Operation, blocks: Sequence[ir.Value], carry: Run, none: Run, join: JoinRuns) -> None:
    """Sets the op's results: the last values of all prefixes, and of the carry after them."""
    own = [_prefixes(runs, join) for runs in _elements(k, blocks)]
    lanes = [_among_lanes(k, prefixes[-1], none, join) for prefixes in own]
    starts, following = _among_warps(k, [total for _, total in lanes], carry, join)
    parts = []
    for prefixes, (before, _), start in zip(own, lanes, starts, strict=True):
        first = join(start, before)
        parts.append(together([join(first, p)[-1] for p in prefixes]))
    k.held[op.results[0]], k.held[op.results[1]] = Spread(tuple(parts)), following[-1]


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


def _among_lanes(k: "ThreadKernel", own: Run, none: Run, join: JoinRuns) -> tuple[Run, Run]:
    """Returns the total of the warp's lanes before this one, and that of all."""
    before, total, step = none, own, 1
    while step < min(k.shape.threads, k.shape.warp):
        other = tuple(k.exchange.from_lane(t, step) for t in total)
        upper = arith.cmpi(arith.CmpIPredicate.ne, arith.andi(k.thread, k.at.number(step)), k.at.number(0))
        before = _select(upper, join(other, before), before)
        total = _select(upper, join(other, total), join(total, other))
        step *= 2
    return before, total


def _among_warps(k: "ThreadKernel", totals: list[Run], carry: Run, join: JoinRuns) -> tuple[list[Run], Run]:
    """Returns what comes before this warp's part of each access, and the carry after all of them."""
    at, warps, starts = k.at, max(k.shape.threads // k.shape.warp, 1), []
    if warps == 1:
        for total in totals:
            starts.append(carry)
            carry = join(carry, total)
        return starts, carry
    lane, warp = at.modulo(k.thread, k.shape.warp), at.over(k.thread, k.shape.warp)
    slots = [k.shared(warps * len(totals), v.type) for v in carry]
    numbered = list(enumerate(totals))

    def store() -> None:
        """Stores the totals of this warp."""
        for c, total in numbered:
            for v, slot in zip(total, slots, strict=True):
                memref.store(v, slot, [at.add(warp, c * warps)])

    k.exchange.share(lambda: when(at.below(lane, 1), store))
    for c in range(len(totals)):
        start = carry
        for w in range(warps):
            start = carry if w == 0 else _select(at.below(warp, w), start, carry)
            carry = join(carry, tuple(memref.load(slot, [at.number(c * warps + w)]) for slot in slots))
        starts.append(start)
    return starts, carry
