"""What a CPU program asks memory for some time before it reads it."""

from torch_mlir import ir

from ..ir.expressions import Load
from ..space.nests import Nest
from ..space.schedule import Schedule, bits
from ..space.space import Result, Space
from ..trace.grouping import walk
from .emit.elements import Blocks

ROW_BYTES = (4096, 524288)  # rows that are worth fetching early and stay in the cache until they are used
STREAM_BYTES = 1 << 22  # inputs from which on fetching early pays
AHEAD_BYTES = 2048  # measured: from 4096 on sums of what lies in the last cache, and of two large inputs, take half as long again


def streams(b: Blocks, plan: Schedule, space: Space, results: list[tuple[Result, ir.Value]]) -> dict[Load, int]:
    """Large inputs that a kernel walks through once, and how many elements ahead to ask for them: the processor's own prefetching
    stops at each page and leaves memory idle while values are computed."""
    out: dict[Load, int] = {}
    if not plan.config.prefetch:
        return out
    if space.columns and not plan.column_vector:  # rows far apart: measured, fetching them early only costs
        return out
    for e in dict.fromkeys(e for r, _ in results for e in walk(r.expr) if isinstance(e, Load)):
        flat, dtype = b.memory[e.tensor]
        size = ir.MemRefType(flat.type).shape[0] * bits(dtype) // 8
        if plan.vector in b.axes(e) and not e.guard and size >= STREAM_BYTES:
            out[e] = AHEAD_BYTES * 8 // bits(dtype)
    return out


def next_row(b: Blocks, plan: Schedule, first: Nest, nest: Nest) -> dict[Load, int]:
    """What the first loop over a row reads from memory and this one finds in the cache: while it computes, memory is idle, so it
    fetches the next row."""
    rows = [*plan.outer, *([plan.chunked] if plan.chunked else []), *plan.inner]
    if not rows or not plan.config.prefetch or not plan.column_vector:
        return {}
    if nest.axes != first.axes or nest.axes != plan.merged.columns:
        return {}
    shared = {e for root in first.roots() for e in walk(root)} & {e for root in nest.roots() for e in walk(root)}
    out = {}
    for e in shared:
        if isinstance(e, Load):
            step = e.at.rename(plan.merged.rename).coefficient(rows[-1])
            if plan.vector in b.axes(e) and ROW_BYTES[0] <= step * bits(e.dtype) // 8 <= ROW_BYTES[1]:
                out[e] = step
    return out
