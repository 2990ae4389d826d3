"""Reads across the vector axis on a GPU: a program transposes one tile through shared memory."""

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from ..ir.affine import Axis
from ..ir.expressions import Load
from ..lower.simt.collective.transpose import padding
from ..lower.simt.control import SHARED
from ..space.forms import crossing_loads, guarded_range
from ..space.schedule import bits
from .covering import blocks_along
from .transpose_tiles import TransposeTiles

MOST_BYTES = 40 << 10
"""Bounds the transpose tiles of a CTA: CUDA allows it 48 KB of static shared memory, some of it for exchanges among threads."""


class SharedTransposeTiles(TransposeTiles):
    """Emits the body of a program that has `crossed`: the rows of a tile along it, and one block of lanes.

    Loads across the vector axis go through transpose tiles as long as there is shared memory for them; the rest read memory
    directly.
    """

    def _fitting(self, loads: list[Load]) -> list[Load]:
        """Returns the loads whose padded tiles fit into MOST_BYTES together."""
        fitting, left = [], MOST_BYTES
        for e in loads:
            item = max(1, bits(str(self._stored(e))) // 8)
            padded = self.schedule.tall * (self.b.lanes + padding(item)) * item
            if padded <= left:
                fitting.append(e)
                left -= padded
        return fitting

    def _stored(self, e: Load) -> ir.Type:
        return ir.MemRefType(self.b.memory[e.tensor][0].type).element_type

    def body(self, chunks: dict[Axis, tuple[ir.Value, ir.Value]]) -> None:
        """Emits the program: fills the tiles, then computes rows. chunks: its rows and lanes (first, count), by axis."""
        b = self.b
        b.vector = axis = self.vector
        (row, rows), (lane, lanes) = chunks[self.crossed], chunks[axis]
        loads = self._fitting(crossing_loads(self.space, self.schedule))
        tiles = {e: self._stage(e, row, rows, lane, lanes) for e in loads}
        exact = b.lanes if axis.extent % b.lanes == 0 else None
        blocks_along(self, b.part(axis, lane, lanes, exact), [], lambda _: self.crossing(tiles, row, rows, SHARED))

    def _stage(self, e: Load, row: ir.Value, rows: ir.Value, lane: ir.Value, lanes: ir.Value) -> ir.Value:
        """Fills a tile of scratch memory with `e`, row by row along `crossed`."""
        b, at = self.b, self.schedule.merged.index(e.offset)
        flat, _ = b.memory[e.tensor]
        with b.point(0):
            stride = b.number(at.coefficient(self.vector))
            scratch = memref.AllocaOp(ir.MemRefType.get([self.schedule.tall, b.lanes], self._stored(e)), [], []).result
            inside = guarded_range(e, self.schedule.merged, self.vector)
            assert inside is not None
            if inside[1] != self.vector.extent:  # what is outside is padding
                lane = arith.minui(lane, b.number(inside[1] - 1))
                lanes = arith.minui(lanes, arith.subi(b.number(inside[1]), lane))
            first = arith.addi(arith.addi(b.index(self.corner(at)), row), arith.muli(lane, stride))
            ir.Operation.create("tile.transpose", operands=[flat, first, lanes, rows, scratch, stride])
        return scratch
