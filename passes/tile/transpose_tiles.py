"""Reads across the vector axis: transposes tiles in registers into scratch memory, from which they are read row by row."""

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, vector

from lamina.core.sizes import Size, SizeLike, at_most, below, is_symbolic, typical
from lamina.schedules.base import TILE_SIDE

from ..ir.affine import Affine, Axis
from ..ir.expressions import Load
from ..ir.sizes import DYNAMIC, static_sizes
from ..space.forms import crossing_loads, guarded_range
from .covering import blocks_along
from .emit.views import bool_array
from .loops import Loops

EARLY = 1 << 20  # elements of an input from which on the next tile is prefetched while this one is transposed
SIDE = 16  # of a tile that is transposed in registers


class TransposeTiles(Loops):
    """Emits the body of a program that has `crossed`: TILE_SIDE rows along it, by blocks of as many lanes or fewer."""

    @property
    def crossed(self) -> Axis:
        """The axis that is contiguous in memory read across the vector axis."""
        assert self.schedule.crossed is not None
        return self.schedule.crossed

    @property
    def vector(self) -> Axis:
        """The vector axis."""
        assert self.schedule.vector is not None
        return self.schedule.vector

    def crossing(self, tiles: dict[Load, ir.Value], first: ir.Value, count: ir.Value, mark: str = "") -> list[ir.Value]:
        """Emits `count` rows from `first` on along `crossed`, in which loads read their tiles. mark: of the loop."""
        b, mask = self.b, self.b.stack[-1].mask

        def row(_: list[ir.Value]) -> list[ir.Value]:
            """Emits one row, which reads the tiles."""
            b.stack[-1].mask = mask
            with b.point():
                local = arith.subi(b.start(self.crossed), first)
            b.transposed = {e: (tile, local) for e, tile in tiles.items()}
            self.row()
            return []

        return self.loop(b.part(self.crossed, first, count), 1, None, [], row, attribute=mark)

    def corner(self, index: Affine) -> Affine:
        """Returns an index without what it varies over in a tile."""
        return Affine(index.constant, tuple((t, c) for t, c in index.terms if t not in (self.crossed, self.vector)))

    def _at(self, e: Load) -> Affine:
        return self.schedule.merged.index(e.offset)

    def body(self, chunks: dict[Axis, tuple[ir.Value, ir.Value]]) -> None:
        """Emits the program: for each block of lanes, transposes and then rows. chunks: the program's rows along `crossed`."""
        b, loads, tiled = self.b, self.space.loads, crossing_loads(self.space, self.schedule)
        first, count = chunks[self.crossed]
        b.vector = axis = self.vector
        early = any(typical(b.sizes.spans[b.memory[e.tensor][0]]) >= EARLY for e in loads)
        if early:
            b.ahead = {e: b.lanes for e in loads if not e.guard and self._at(e).coefficient(axis) == 1}
        with b.point(0):
            scratch = {e: self._scratch(e) for e in tiled}
        low, high = self._inside(tiled)

        def block(_: list[ir.Value]) -> list[ir.Value]:
            """Fills the tiles of a block and emits its rows."""
            with b.point():
                for e in tiled:
                    self._transpose(e, scratch[e], first, low, high, early)
            return self.crossing(scratch, first, count)

        def edge(_: list[ir.Value]) -> list[ir.Value]:
            """Emits the rows of a block at an edge, without tiles."""
            return self.crossing({}, first, count)

        known = b.ranges
        for begin, end, body in ((0, low, edge), (low, high, block), (high, axis.extent, edge)):
            if begin != end:
                b.ranges = known if (begin, end) == (0, axis.extent) else {**known, axis: (begin, end - 1)}
                blocks_along(self, b.part(axis, b.number(begin), b.number(end - begin), end - begin), [], body)
        b.ranges = known

    def _inside(self, tiled: Sequence[Load]) -> tuple[SizeLike, SizeLike]:
        """Returns the range (first, end) of the vector axis in which the guards of all tiled loads hold. Outside of it, such as in
        padding, loads are lane by lane."""
        low, high = 0, self.vector.extent
        for e in tiled:
            inside = guarded_range(e, self.schedule.merged, self.vector)
            assert inside is not None
            low = inside[0] if at_most(low, inside[0]) else low
            high = inside[1] if at_most(inside[1], high) else high
        return (low, high) if below(low, high) else (0, 0)

    @property
    def _height(self) -> int:
        extent = self.crossed.extent
        return TILE_SIDE if is_symbolic(extent) else min(TILE_SIDE, -(-extent // SIDE) * SIDE)

    def _scratch(self, e: Load) -> ir.Value:
        stored = ir.MemRefType(self.b.memory[e.tensor][0].type).element_type
        return memref.AllocaOp(ir.MemRefType.get([self._height, self.b.lanes], stored), [], [], alignment=64).result

    def _transpose(self, e: Load, scratch: ir.Value, first: ir.Value, low: SizeLike, high: SizeLike, early: bool) -> None:
        """Fills `scratch` with the rows from `first` on along `crossed`, and the block's lanes, all from `low` to `high`."""
        b, at = self.b, self._at(e)
        flat, _ = b.memory[e.tensor]
        stored = ir.MemRefType(flat.type).element_type
        sizes = [high - low, self.crossed.extent]
        strides = [at.coefficient(self.vector), 1]
        plain = [static_sizes(sizes), static_sizes(strides)]
        given = [[b.number(n) for n in part if isinstance(n, Size)] for part in (sizes, strides)]
        type_ = ir.MemRefType.get(plain[0], stored, ir.StridedLayoutAttr.get(DYNAMIC, plain[1]))
        corner = self.corner(at) + at.coefficient(self.vector) * low
        view = memref.ReinterpretCastOp(type_, flat, [b.index(corner)], *given, [DYNAMIC], *plain).result
        registers = ir.VectorType.get([SIDE, SIDE], stored)
        swap = ir.AffineMap.get(2, 0, [ir.AffineDimExpr.get(1), ir.AffineDimExpr.get(0)])
        whole = [n % length == 0 for n, length in ((sizes[1], self._height), (sizes[0], b.lanes))]
        lanes, pad = arith.subi(b.bound[self.vector][1], b.number(low)), b.constant(0, stored)
        last = b.number(high - low - 1)
        ahead = [b.number(b.lanes + r) for r in range(SIDE)] if early else []
        zero, height, width, side = map(b.number, (0, self._height, b.lanes, SIDE))  # in front of the loops

        def tile(i: ir.Value, j: ir.Value) -> list[ir.Value]:
            """Transposes one tile through registers."""
            where = [arith.addi(lanes, j), arith.addi(first, i)]
            for step in ahead:  # the next tile's cache lines, one a row
                memref.prefetch(view, [arith.minui(arith.addi(where[0], step), last), where[1]], False, 2, True)
            read = vector.transfer_read(registers, view, where, swap, pad, in_bounds=bool_array(whole))
            vector.transfer_write(None, read, scratch, [i, j], ir.AffineMap.get_identity(2), in_bounds=bool_array([True, True]))
            return []

        b.loop(zero, height, side, [], lambda i, _: b.loop(zero, width, side, [], lambda j, _: tile(i, j)))
