"""Emits kernels whose programs are of several kinds (horizontal fusion): the CTA's number decides which part runs."""

from collections.abc import Callable, Sequence
from functools import partial

from torch_mlir import ir

from lamina.core.sizes import Size

from ...ir.reading import ops_in
from ...ir.sizes import load_size, size_on
from .collective.workgroup import Workgroup
from .kernel import ThreadKernel
from .threads import IndexBuilder, Shape, block_id, emit_if_else
from .vendor import Vendor

PART = "tile.part"
Part = tuple[ir.Operation, int | ir.Value]
"""A tile.part and the number of its first CTA: a value where a part in front of it has as many programs as the call decides."""


def fill(tile: ir.Operation, entry: ir.Block, warp: int, vendor: Vendor) -> int:
    """Fills a gpu.func's entry block with one thread's code of a tile function; returns how many shared memory buffers it takes."""
    workgroup = Workgroup(entry)
    kernel = partial(ThreadKernel, tile, entry, workgroup, warp, vendor)

    def emit(part: ir.Operation, first: int | ir.Value) -> None:
        """Emits one part."""
        workgroup.next_part()
        with part.location:
            kernel(part, first).emit()

    with ir.InsertionPoint(entry):
        if "tile.dependent" in tile.attributes:
            vendor.wait_for_previous_kernel()
        index_ops = IndexBuilder(entry)
        if parts := _parts(tile, entry, warp, index_ops):
            _choose(parts, emit, index_ops, block_id())
        else:
            kernel().emit()
    return len(workgroup.buffers)


def _parts(tile: ir.Operation, entry: ir.Block, warp: int, index_ops: IndexBuilder) -> list[Part]:
    block = tile.regions[0].blocks[0]
    parts: list[Part] = []
    for op in ops_in(block, PART):
        first: int | ir.Value = 0
        if parts:
            before, first = parts[-1]
            shape, grid = Shape.of(before, warp), size_on(before, "tile.grid")
            if isinstance(grid, Size):
                programs = load_size(tile, grid, entry.arguments[len(block.arguments) - 1])
                first = index_ops.add(index_ops.over(index_ops.add(programs, shape.pack - 1), shape.pack), first)
            else:
                first = first + shape.ctas(grid) if isinstance(first, int) else index_ops.add(first, shape.ctas(grid))
        parts.append((op, first))
    return parts


def _choose(
    parts: Sequence[Part], emit: Callable[[ir.Operation, int | ir.Value], None], index_ops: IndexBuilder, cta: ir.Value
) -> Sequence[ir.Value]:
    """Emits the part that a CTA belongs to, found by bisection. All threads of a CTA take the same branch, so that barriers may
    stand in it."""
    if len(parts) == 1:
        emit(*parts[0])
        return ()
    half = len(parts) // 2
    makes = [partial(_choose, some, emit, index_ops, cta) for some in (parts[:half], parts[half:])]
    return emit_if_else(index_ops.below(cta, parts[half][1]), (), *makes)
