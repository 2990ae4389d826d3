"""Lowers tile.sort: a bitonic sort of a block in registers.

Lanes of one thread are compared in its registers, those of a warp's threads by shuffles, those of different warps through shared
memory.
"""

from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from ...sorting import highest, step_masks
from ..threads import barrier
from ..values import Spread, elements, vector_of

if TYPE_CHECKING:
    from ..kernel import ThreadKernel


def sort(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers one tile.sort."""
    shape = k.shape
    values = [v for part in k.spread(op.operands[0]).parts for v in elements(part)]
    slots: ir.Value | None = None
    for mask in step_masks(shape.lanes):
        threads, own = mask // shape.vec % shape.threads, mask % shape.vec + mask // (shape.vec * shape.threads) * shape.vec
        if not threads:
            values = _within_thread(values, own)
            continue
        if threads < shape.warp:
            others = [k.exchange.from_lane(v, threads) for v in values]
        else:
            slots = slots if slots is not None else k.shared(shape.lanes, values[0].type)
            others = _through_memory(k, slots, values, threads)
        others = [others[r ^ own] for r in range(len(values))]
        values = _with_others(k, values, others, mask)
    parts = [vector_of(values[c * shape.vec : (c + 1) * shape.vec]) for c in range(shape.chunks)]
    k.values[op.results[0]] = Spread(tuple(parts))


def _within_thread(values: list[ir.Value], mask: int) -> list[ir.Value]:
    """Orders the pairs of a thread's registers."""
    out, top = list(values), highest(mask)
    for low in (r for r in range(len(values)) if not r & top):
        a, b = values[low], values[low ^ mask]
        out[low], out[low ^ mask] = arith.minsi(a, b), arith.maxsi(a, b)
    return out


def _with_others(k: "ThreadKernel", values: list[ir.Value], others: list[ir.Value], mask: int) -> list[ir.Value]:
    """Keeps the lesser or the greater of each register and of that of another thread."""
    shape, top = k.shape, highest(mask)
    if top >= shape.vec * shape.threads:  # the access says which is less
        bit = top // shape.threads
        return [arith.maxsi(a, b) if r & bit else arith.minsi(a, b) for r, (a, b) in enumerate(zip(values, others, strict=True))]
    bit = k.index_ops.number(top // shape.vec)
    upper = arith.cmpi(arith.CmpIPredicate.ne, arith.andi(k.thread, bit), k.index_ops.number(0))
    out = []
    for a, b in zip(values, others, strict=True):
        less = arith.cmpi(arith.CmpIPredicate.slt, a, b)
        out.append(arith.select(arith.xori(less, upper), a, b))
    return out


def _through_memory(k: "ThreadKernel", slots: ir.Value, values: list[ir.Value], threads: int) -> list[ir.Value]:
    """Returns the registers of the thread whose number differs in the bits `threads`. Neighboring threads have neighboring
    slots."""
    other = arith.xori(k.thread, k.index_ops.number(threads))
    barrier()  # what was read of the slots before
    for r, v in enumerate(values):
        memref.store(v, slots, [k.index_ops.add(k.thread, r * k.shape.threads)])
    barrier()
    return [memref.load(slots, [k.index_ops.add(other, r * k.shape.threads)]) for r in range(len(values))]
