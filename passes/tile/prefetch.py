"""Chooses what a CPU program prefetches, and how far ahead."""

from lamina.core.sizes import typical

from ..ir.expressions import Load, walk
from ..space.nests import Nest
from ..space.schedule import Schedule, bits
from ..space.space import Space
from .emit.blocks import Blocks

ROW_BYTES = (4096, 524288)  # rows that are worth prefetching and stay in the cache until they are used
STREAM_BYTES = 1 << 22  # inputs from which on prefetching pays
AHEAD_BYTES = 2048  # measured: from 4096 on, sums of data in the last-level cache or of two large inputs take 1.5x


def streamed_inputs(b: Blocks, schedule: Schedule, space: Space) -> dict[Load, int]:
    """Returns large inputs that a kernel reads once in order, and how many elements ahead to prefetch them: the processor's own
    prefetching stops at each page and leaves memory idle while values are computed."""
    out: dict[Load, int] = {}
    if not schedule.config.prefetch:
        return out
    if space.columns and not schedule.column_vector:  # rows are far apart: as measured, prefetching them only costs
        return out
    for e in space.loads:
        flat, dtype = b.memory[e.tensor]
        size = typical(b.sizes.spans[flat]) * bits(dtype) // 8
        if schedule.vector in b.axes(e) and not e.guard and size >= STREAM_BYTES:
            out[e] = AHEAD_BYTES * 8 // bits(dtype)
    return out


def next_row(b: Blocks, schedule: Schedule, first: Nest, nest: Nest) -> dict[Load, int]:
    """Returns loads of this loop whose next row is worth prefetching, and how many elements away it is: those that the first loop
    over the row read from memory and this one finds in the cache. Memory is idle while this loop computes."""
    rows = [*schedule.outer, *([schedule.chunked] if schedule.chunked else []), *schedule.inner]
    if not rows or not schedule.config.prefetch or not schedule.column_vector:
        return {}
    if nest.axes != first.axes or nest.axes != schedule.merged.columns:
        return {}
    shared = {e for root in first.roots() for e in walk(root)} & {e for root in nest.roots() for e in walk(root)}
    out = {}
    for e in shared:
        if isinstance(e, Load):
            step = schedule.merged.index(e.offset).coefficient(rows[-1])
            if schedule.vector in b.axes(e) and ROW_BYTES[0] <= typical(step) * bits(e.dtype) // 8 <= ROW_BYTES[1]:
                out[e] = step
    return out
