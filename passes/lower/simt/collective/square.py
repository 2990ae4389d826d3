"""Lowers tile.transpose among the threads of a CTA: reads a tile along rows and writes it along columns of padded shared memory."""

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from ..memory import ThreadMemory
from ..threads import Indices, Shape, barrier
from ..values import elements

WORD = 4  # bytes of a bank: rows are one bank longer than needed, so that a column spreads over all banks


def padding(item: int) -> int:
    """Returns the elements added to each row of a transpose tile, for elements of `item` bytes."""
    return max(WORD // item, 1)


def fill(
    op: ir.Operation, source: ir.Value, square: ir.Value, bounds: list[ir.Value], divisor: int,
    shape: Shape, memory: ThreadMemory, at: Indices, thread: ir.Value,
) -> None:  # fmt: skip
    """Fills the transpose tile `square` from `source`. bounds: first element, rows, columns; divisor: of the first element, the
    stride and the number of columns."""
    first, rows, columns = bounds
    side = ir.MemRefType(square.type).shape[0]
    stride = ir.IntegerAttr(op.attributes["stride"]).value
    width = next(w for w in (8, 4, 2, 1) if divisor % w == 0 and w * ir.MemRefType(source.type).element_type.width <= 128)
    across = side // width  # threads of one row
    high = max(shape.cta // across, 1)  # rows at a time
    column = at.times(at.modulo(thread, across), width)
    row = at.over(thread, across)
    within = at.below(column, columns)
    loaded = []
    for start in range(0, side, high):
        i = at.add(row, start)
        inside = arith.andi(within, at.below(i, rows))
        place = at.add(at.add(first, at.times(i, stride)), column)
        loaded.append((i, memory.load(source, arith.select(inside, place, first), width, divisor)))
    for i, part in loaded:
        for e, value in enumerate(elements(part)):
            memref.store(value, square, [at.add(column, e), i])
    barrier()
