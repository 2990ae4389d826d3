"""Emits kernels whose programs are of several kinds (horizontal fusion): the CTA's number decides which part runs."""

from collections.abc import Callable, Sequence
from functools import partial

from torch_mlir import ir

from ...ir.sizes import size_on
from .collective.workgroup import Workgroup
from .kernel import ThreadKernel
from .threads import Indices, Shape, block_id, either
from .vendor import Vendor

PART = "tile.part"
Part = tuple[ir.Operation, int]
"""A tile.part and the number of its first CTA."""


def fill(tile: ir.Operation, entry: ir.Block, warp: int, vendor: Vendor) -> int:
    """Fills a gpu.func's entry block with one thread's code of a tile function; returns how many shared memory buffers it takes."""
    workgroup = Workgroup(entry)
    kernel = partial(ThreadKernel, tile, entry, workgroup, warp, vendor)

    def emit(part: ir.Operation, first: int) -> None:
        workgroup.next_part()
        with part.location:
            kernel(part, first).emit()

    with ir.InsertionPoint(entry):
        if "tile.dependent" in tile.attributes:
            vendor.wait_for_previous_kernel()
        if parts := _parts(tile, warp):
            _choose(parts, emit, Indices(entry), block_id())
        else:
            kernel().emit()
    return len(workgroup.buffers)


def _parts(tile: ir.Operation, warp: int) -> list[Part]:
    parts, first = [], 0
    for op in (o.operation for o in tile.regions[0].blocks[0].operations if o.operation.name == PART):
        parts.append((op, first))
        first += Shape.of(op, warp).ctas(size_on(op, "tile.grid"))  # a symbolic one is the last
    return parts


def _choose(parts: Sequence[Part], emit: Callable[[ir.Operation, int], None], at: Indices, cta: ir.Value) -> Sequence[ir.Value]:
    """Emits the part that a CTA belongs to, found by bisection. All threads of a CTA take the same branch, so that barriers may
    stand in it."""
    if len(parts) == 1:
        emit(*parts[0])
        return ()
    half = len(parts) // 2
    makes = [partial(_choose, some, emit, at, cta) for some in (parts[:half], parts[half:])]
    return either(at.below(cta, parts[half][1]), (), *makes)
