"""Depthwise convolution on a CPU: one program computes rows of one channel (a plane) from a padded copy of the image.

A tile of sums stays in registers: each block of pixels is loaded once, and multiplied for every row of the tile whose windows
contain it.
"""

from functools import partial

from torch_mlir import ir
from torch_mlir.dialects import arith, math, memref, vector

from ....ir.affine import Affine
from ....space.planes.convolution import Planes
from ....space.space import Space
from ..blocks import Blocks, Frame
from .copies import PlaneCopy


class PlaneProgram:
    """Emits the body of a depthwise convolution kernel."""

    def __init__(self, frame: Frame, space: Space, schedule: Planes) -> None:
        self.schedule = schedule
        self.b = Blocks(frame, schedule.merged, schedule.lanes)
        self.results = list(zip(space.results, frame.results, strict=True))
        self.f32 = ir.F32Type.get()

    def emit(self, program: ir.Value) -> None:
        """Emits the program whose number in the grid is `program`: the padded copy, then the sums from it."""
        b, p = self.b, self.schedule
        axes = p.axes.batch, p.axes.channel, p.chunks
        for axis, at in zip(reversed(axes), b.digits(program, [a.extent for a in axes]), strict=True):
            b.bind(axis, at)
        plane = PlaneCopy(b, p.plane)
        first = arith.muli(b.bound[p.chunks][1], b.number(p.chunk))
        plane.fill(first)
        copy = plane.memory
        b.vector = p.axes.column
        whole = p.chunk // p.rows * p.rows
        self._tiles(copy, first, 0, whole, p.rows)
        if whole < p.chunk:
            self._tiles(copy, first, whole, p.chunk, p.chunk - whole)

    def _tiles(self, copy: ir.Value, first: ir.Value, low: int, high: int, rows: int) -> None:
        """Emits the sums of this program's rows from `low` to `high`, `rows` of them at a time."""
        b, p = self.b, self.schedule
        whole = p.axes.column.extent // p.lanes * p.lanes

        def tiles(row: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            """Computes the tiles of one row of tiles, block by block of columns."""
            place = arith.addi(first, row)
            if whole:
                b.loop(
                    b.number(0), b.number(whole), p.lanes, [], lambda column, _: self._tile(copy, row, place, column, rows, None)
                )
            if whole < p.axes.column.extent:
                with b.scope(b.stack[-1].block):
                    self._tile(copy, row, place, b.number(whole), rows, p.axes.column.extent - whole)
            return []

        b.loop(b.number(low), b.number(high), rows, [], tiles)

    def _tile(
        self, copy: ir.Value, row: ir.Value, place: ir.Value, column: ir.Value, rows: int, left: int | None
    ) -> list[ir.Value]:
        """Emits the sums of `rows` rows for a block of columns, their epilogue and stores.

        row    the first row, counted from the program's first
        place  the first row, counted from the image's first
        left   the columns of a partial block; None for a whole one
        """
        b, p = self.b, self.schedule
        b.bind(p.axes.column, column)
        if left is not None:
            b.stack[-1].mask = b.memoized(("mask", left), 0, lambda: b.mask_before(b.number(left)))
        mask = b.stack[-1].mask
        with b.point():
            sums = self._sums(copy, row, column, rows)
        for r, total in enumerate(sums):
            with b.scope(b.stack[-1].block, mask=mask):
                with b.point():
                    b.bind(p.axes.row, arith.addi(place, b.number(r)))
                b.stack[-1].memo[p.product] = total
                for result, flat in self.results:
                    b.store(result.expr, flat, result.dtype, result.offset, result.paired)
        return []

    def _sums(self, copy: ir.Value, row: ir.Value, column: ir.Value, rows: int) -> list[ir.Value]:
        """Emits a tile of sums. Every block of pixels is loaded once, and the weights column by column of the window."""
        b, p = self.b, self.schedule
        tall, spread, length = p.plane.window.stride[0], p.plane.window.dilation[0], p.plane.length
        start = arith.addi(arith.muli(row, b.number(tall * length)), column)
        block = ir.VectorType.get([p.lanes], self.f32)
        sums: list[ir.Value] = [b.splat(0.0, self.f32)] * rows
        uses: dict[int, list[tuple[int, int]]] = {}  # row of pixels -> (row of the tile, row of the window)
        for r in range(rows):
            for k in range(p.axes.down.extent):
                uses.setdefault(r * tall + k * spread, []).append((r, k))
        for j in range(p.axes.across.extent):
            weights = [self._weight(k, j) for k in range(p.axes.down.extent)]
            for t in sorted(uses):
                at = arith.addi(start, b.number(t * length + p.plane.place(j)))
                pixels = vector.load(block, copy, [at])
                for r, k in uses[t]:
                    sums[r] = math.fma(pixels, weights[k], sums[r])
        return sums

    def _weight(self, k: int, j: int) -> ir.Value:
        """Emits the weight at row `k` and column `j` of the window, in all lanes."""
        b, p = self.b, self.schedule
        index = p.weight.offset
        rest = Affine(index.constant, tuple((t, c) for t, c in index.terms if t not in (p.axes.down, p.axes.across)))
        step = index.coefficient(p.axes.down) * k + index.coefficient(p.axes.across) * j
        start = b.memoized("weights", 0, partial(b.index, rest))
        number = memref.load(b.memory[p.weight.tensor][0], [arith.addi(start, b.number(step))])
        return b.widen(number)
