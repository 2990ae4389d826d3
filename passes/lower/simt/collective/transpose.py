"""Lowers tile.transpose among the threads of a CTA: reads a tile along rows and writes it along columns of padded shared memory."""

import math
from functools import partial
from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from ..threads import barrier, emit_if_else
from ..values import elements
from .workgroup import WORKGROUP

if TYPE_CHECKING:
    from ..kernel import ThreadKernel

WIDTHS = (8, 4, 2, 1)  # elements of an access
WORD = 4  # bytes of a bank: rows are one bank longer than needed, so that a column spreads over all banks


def padding(item: int) -> int:
    """Returns the elements added to each row of a transpose tile, for elements of `item` bytes."""
    return max(WORD // item, 1)


def alloca(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers a transpose tile's scratch memory, which threads fill together, to shared memory padded against bank conflicts."""
    type_ = ir.MemRefType(op.results[0].type)
    rows, columns = type_.shape
    padded = [rows, columns + padding(type_.element_type.width // 8)]
    k.values[op.results[0]] = k.attribution(ir.MemRefType.get(padded, type_.element_type, None, ir.Attribute.parse(WORKGROUP)))


def transpose(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers tile.transpose, by accesses as wide as the alignment of its rows allows. Where a call decides that, the program looks:
    all its threads take the same branch."""
    source, first, columns, stride = (k.uniform(op.operands[i]) for i in (0, 1, 3, 5))
    tall, lines = ir.MemRefType(op.operands[4].type).shape
    bits = ir.MemRefType(source.type).element_type.width
    memory = max(k.aligned[source] // (bits // 8), 1)
    places = [k.divisors.of(op.operands[i]) for i in (1, 3, 5)]
    fitting = [w for w in WIDTHS if w == 1 or (w * bits <= 128 and tall * lines >= k.shape.cta * w)]  # no thread without an access
    known, possible = (next(w for w in fitting if all(n % w == 0 for n in (*ns, memory))) for ns in (places, ()))

    def stage(width: int) -> tuple[()]:
        """Emits the accesses of one width, which yield nothing."""
        _stage(k, op, width, max(width, math.gcd(*places, memory)))
        return ()

    if possible == known:
        stage(known)
    else:
        together = arith.ori(arith.ori(first, stride), columns)
        aligned = arith.cmpi(arith.CmpIPredicate.eq, k.index_ops.modulo(together, possible), k.index_ops.number(0))
        emit_if_else(aligned, (), partial(stage, possible), partial(stage, known))
    barrier()


def _stage(k: "ThreadKernel", op: ir.Operation, width: int, divisor: int) -> None:
    """Emits the accesses of a tile.transpose: each has `width` elements, from a multiple of `divisor` on."""
    source, scratch, stride = (k.uniform(op.operands[i]) for i in (0, 4, 5))
    first, rows, columns = (k.uniform(v) for v in list(op.operands)[1:4])
    index_ops = k.index_ops
    tall, lines = ir.MemRefType(op.operands[4].type).shape
    across = min(tall // width, k.shape.cta)  # threads of one row
    high = k.shape.cta // across  # rows at a time
    row, place_in_row = index_ops.over(k.thread, across), index_ops.times(index_ops.modulo(k.thread, across), width)
    loaded = []
    for left in range(0, tall, across * width):
        column = index_ops.add(place_in_row, left)
        within = index_ops.below(column, columns)
        for start in range(0, lines, high):
            i = index_ops.add(row, start)
            inside = arith.andi(within, index_ops.below(i, rows))
            place = index_ops.add(index_ops.add(first, index_ops.times(i, stride)), column)
            loaded.append((column, i, k.memory.load(source, arith.select(inside, place, first), width, divisor)))
    for column, i, part in loaded:
        for e, value in enumerate(elements(part)):
            memref.store(value, scratch, [index_ops.add(column, e), i])
