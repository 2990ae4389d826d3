"""Emits kernels whose programs are of several kinds (horizontal fusion): the CTA's number decides which part runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from torch_mlir import ir

from .collective.workgroup import Workgroup
from .kernel import ThreadKernel
from .threads import Indices, Shape, block_id, either
from .vendor import Vendor

PART = "tile.part"


@dataclass(frozen=True)
class _Part:
    op: ir.Operation
    first: int  # its first CTA


def fill(tile: ir.Operation, entry: ir.Block, warp: int, vendor: Vendor) -> int:
    """Fills a gpu.func's entry block with one thread's code of a tile function; returns how many shared memory buffers it takes."""
    workgroup = Workgroup(entry)
    parts = _parts(tile, warp)
    with ir.InsertionPoint(entry):
        if "tile.dependent" in tile.attributes:
            vendor.wait_for_previous_kernel()
        if parts:
            _choose(tile, parts, entry, workgroup, warp, vendor, Indices(entry), block_id())
        else:
            ThreadKernel(tile, entry, workgroup, warp, vendor).emit()
    return len(workgroup.buffers)


def _parts(tile: ir.Operation, warp: int) -> list[_Part]:
    parts, first = [], 0
    for op in tile.regions[0].blocks[0].operations:
        if op.operation.name == PART:
            parts.append(_Part(op.operation, first))
            first += Shape.of(op.operation, warp).ctas(ir.IntegerAttr(op.attributes["tile.grid"]).value)
    return parts


def _choose(
    tile: ir.Operation,
    parts: Sequence[_Part],
    entry: ir.Block,
    workgroup: Workgroup,
    warp: int,
    vendor: Vendor,
    at: Indices,
    cta: ir.Value,
) -> None:
    """Emits the part that a CTA belongs to, found by bisection. All threads of a CTA take the same branch, so that barriers may
    stand in it."""
    if len(parts) == 1:
        workgroup.next_part()
        with parts[0].op.location:
            ThreadKernel(tile, entry, workgroup, warp, vendor, parts[0].op, parts[0].first).emit()
        return
    half = len(parts) // 2

    def choose(some: Sequence[_Part]) -> Sequence[ir.Value]:
        _choose(tile, some, entry, workgroup, warp, vendor, at, cta)
        return ()

    either(at.below(cta, parts[half].first), (), partial(choose, parts[:half]), partial(choose, parts[half:]))
