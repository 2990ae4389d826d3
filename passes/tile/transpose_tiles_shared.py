"""Reads across the vector axis on a GPU: a program transposes one tile through shared memory."""

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from lamina.schedules.base import SQUARE

from ..ir.affine import Affine, Axis
from ..ir.expressions import Load
from ..lower.simt.collective.square import padding
from ..lower.simt.control import SHARED
from ..space.schedule import Schedule, bits, crossing_loads
from ..space.space import Space
from .emit.blocks import Memory
from .loops import Loops

MOST_BYTES = 40 << 10
"""Bounds the transpose tiles of a CTA: CUDA allows it 48 KB of static shared memory, some of it for exchanges among threads."""


class SharedTransposeTiles(Loops):
    """Emits the body of a program that has `crossed`: SQUARE rows along it, and one block of lanes.

    Loads across the vector axis go through transpose tiles as long as there is shared memory for them; the rest read memory
    directly.
    """

    def __init__(
        self, entry: ir.Block, space: Space, plan: Schedule, memory: dict[ir.Value, Memory], results: list[ir.Value]
    ) -> None:
        super().__init__(entry, space, plan, memory, results)
        assert plan.crossed is not None and plan.vector is not None
        self.crossed: Axis = plan.crossed
        self.vector: Axis = plan.vector
        self.loads = self._fitting(crossing_loads(space, plan))

    def _fitting(self, loads: list[Load]) -> list[Load]:
        """Returns the loads whose padded tiles fit into MOST_BYTES together."""
        fitting, left = [], MOST_BYTES
        for e in loads:
            item = max(1, bits(str(self._stored(e))) // 8)
            padded = SQUARE * (SQUARE + padding(item)) * item
            if padded <= left:
                fitting.append(e)
                left -= padded
        return fitting

    def _stored(self, e: Load) -> ir.Type:
        return ir.MemRefType(self.b.memory[e.tensor][0].type).element_type

    def body(self, chunks: dict[Axis, tuple[ir.Value, ir.Value]]) -> None:
        """Emits the program: fills the tiles, then computes rows. chunks: its rows and lanes (first, count), by axis."""
        b = self.b
        b.vector = self.vector
        (row, rows), (lane, lanes) = chunks[self.crossed], chunks[self.vector]
        squares = {e: self._stage(e, row, rows, lane, lanes) for e in self.loads}

        def crossing(mask: ir.Value | None) -> list[ir.Value]:
            b.stack[-1].mask = mask
            bound = b.bound[self.crossed][1]
            with b.point():
                local = arith.subi(bound, row)
            b.squares = {e: (squares[e], local) for e in self.loads}
            self.row()
            return []

        def block(_: list[ir.Value]) -> list[ir.Value]:
            mask = b.stack[-1].mask
            return self.loop(self.crossed, row, b.number(0), rows, 1, None, [], lambda _: crossing(mask), attribute=SHARED)

        exact = SQUARE if self.vector.extent % SQUARE == 0 else None
        self.blocks(self.vector, lane, lanes, exact, [], block)

    def _stage(self, e: Load, row: ir.Value, rows: ir.Value, lane: ir.Value, lanes: ir.Value) -> ir.Value:
        """Fills a tile of scratch memory with `e`, row by row along `crossed`."""
        b, at = self.b, e.at.rename(self.plan.merged.rename)
        flat, _ = b.memory[e.tensor]
        step = at.coefficient(self.vector)
        rest = Affine(at.constant, tuple((t, c) for t, c in at.terms if t not in (self.crossed, self.vector)))
        with b.point(0):
            scratch = memref.AllocaOp(ir.MemRefType.get([SQUARE, SQUARE], self._stored(e)), [], []).result
            first = arith.addi(arith.addi(b.index(rest), row), arith.muli(lane, b.number(step)))
            ir.Operation.create(
                "tile.transpose",
                operands=[flat, first, lanes, rows, scratch],
                attributes={"stride": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), step)},
            )
        return scratch
