"""Lowers tile.transpose among the threads of a CTA: reads a tile along rows and writes it along columns of padded shared memory."""

from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from ..threads import barrier
from ..values import elements
from .workgroup import WORKGROUP

if TYPE_CHECKING:
    from ..kernel import ThreadKernel

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
    """Lowers tile.transpose, by accesses as wide as the alignment of its rows allows."""
    source, scratch, stride = (k.uniform(op.operands[i]) for i in (0, 4, 5))
    first, rows, columns = (k.uniform(v) for v in list(op.operands)[1:4])
    index_ops = k.index_ops
    tall, lines = ir.MemRefType(op.operands[4].type).shape
    bits = ir.MemRefType(source.type).element_type.width
    divisor = 64
    for n in (*map(k.divisors.of, (op.operands[1], op.operands[3], op.operands[5])), max(k.aligned[source] // (bits // 8), 1)):
        while divisor > 1 and n % divisor:
            divisor //= 2
    accesses = (w for w in (8, 4, 2, 1) if divisor % w == 0 and w * bits <= 128)
    width = next(w for w in accesses if w == 1 or tall * lines >= k.shape.cta * w)  # no thread is without an access
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
    barrier()
