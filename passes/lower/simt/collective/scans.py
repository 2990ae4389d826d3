"""Lowers tile.scan: prefixes of a block in the order of its lanes: accesses, then threads, then the elements of a thread.

A thread computes the prefixes of its own elements. The lanes of a warp exchange their totals by shuffles of doubling distance,
and the warps through shared memory. All accesses share one exchange.
"""

from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from ....ir.reading import neutral
from ..threads import when
from ..values import Join, Spread, elements, joining, together

if TYPE_CHECKING:
    from ..kernel import ThreadKernel


def scan(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers one tile.scan: to the block of prefixes and the next block's carry."""
    name = ir.StringAttr(op.attributes["combine"]).value
    join = joining(name)
    carry = k.uniform(op.operands[1])
    own = [_prefixes(elements(part), join) for part in k.spread(op.operands[0]).parts]
    none = arith.constant(carry.type, neutral(name, str(carry.type)))
    lanes = [_among_lanes(k, prefixes[-1], none, join) for prefixes in own]
    starts, following = _among_warps(k, [total for _, total in lanes], carry, join)
    parts = []
    for prefixes, (before, _), start in zip(own, lanes, starts, strict=True):
        first = join(start, before)
        parts.append(together([join(first, p) for p in prefixes]))
    k.held[op.results[0]], k.held[op.results[1]] = Spread(tuple(parts)), following


def _prefixes(values: list[ir.Value], join: Join) -> list[ir.Value]:
    out = values[:1]
    for v in values[1:]:
        out.append(join(out[-1], v))
    return out


def _among_lanes(k: "ThreadKernel", own: ir.Value, none: ir.Value, join: Join) -> tuple[ir.Value, ir.Value]:
    """Returns the total of the warp's lanes before this one, and that of all."""
    before, total, step = none, own, 1
    while step < min(k.shape.threads, k.shape.warp):
        other = k.exchange.from_lane(total, step)
        upper = arith.cmpi(arith.CmpIPredicate.ne, arith.andi(k.thread, k.at.number(step)), k.at.number(0))
        before = arith.select(upper, join(other, before), before)
        total = arith.select(upper, join(other, total), join(total, other))
        step *= 2
    return before, total


def _among_warps(k: "ThreadKernel", totals: list[ir.Value], carry: ir.Value, join: Join) -> tuple[list[ir.Value], ir.Value]:
    """Returns what comes before this warp's part of each access, and the carry after all of them."""
    at, warps, starts = k.at, max(k.shape.threads // k.shape.warp, 1), []
    if warps == 1:
        for total in totals:
            starts.append(carry)
            carry = join(carry, total)
        return starts, carry
    lane, warp = at.modulo(k.thread, k.shape.warp), at.over(k.thread, k.shape.warp)
    slots = k.shared(warps * len(totals), carry.type)
    numbered = list(enumerate(totals))
    k.exchange.share(
        lambda: when(at.below(lane, 1), lambda: [memref.store(t, slots, [at.add(warp, c * warps)]) for c, t in numbered])
    )
    for c in range(len(totals)):
        start = carry
        for w in range(warps):
            start = carry if w == 0 else arith.select(at.below(warp, w), start, carry)
            carry = join(carry, memref.load(slots, [at.number(c * warps + w)]))
        starts.append(start)
    return starts, carry
