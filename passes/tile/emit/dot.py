"""GEMM as block programs: one program computes an output tile in a loop over K blocks of the operands, then its epilogue in
registers.

Blocks are tiles, vectors of rank 2 (blocks.py). Convolutions are GEMMs whose operands are gathered (gathers.py).
"""

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from lamina.core.sizes import SizeLike, minimum
from lamina.schedules.contraction import GemmConfig

from ...ir.expressions import Expr, Load
from ...space.contraction import Contraction, extent
from ...space.space import Result
from . import tiles
from .blocks import Blocks, Frame
from .moments import RowMoments, along_rows, constant, over_rows
from .scopes import Side
from .values import block_shape, broadcast_binary, element, filled
from .views import bool_array, last_dims_map, view


class Dot:
    """Emits the program of one output tile."""

    def __init__(self, frame: Frame, space: Contraction, schedule: GemmConfig) -> None:
        self.product, self.config, self.results = space, schedule, frame.results
        self.b = Blocks(frame, space.merged, 0)

    def emit(self, program: ir.Value) -> None:
        """Emits the program of output tile number `program`: the K loop, then the epilogue in `split` parts of its columns."""
        b, c, p = self.b, self.config, self.product
        self._place(program)
        totals = self._sums()
        first, width = b.start(p.n), c.n // c.split
        b.sides = Side(p.m, c.m, c.m), Side(p.n, width, c.n)
        rows: dict[int, RowMoments] = {}  # moments of the rows so far, by result
        for part in range(c.split if p.n else 1):
            with b.scope(b.stack[-1].block), b.point():
                if p.n is not None:
                    b.bind(p.n, arith.addi(first, b.number(part * width)) if part else first)
                b.stack[-1].memo.update({sum_: self._part(total, part) for sum_, total in zip(p.products, totals, strict=True)})
                self._epilogue(rows)
        for i, moments in rows.items():
            value = moments.sum if moments.squares is None else moments.squares
            self._store_sums(p.results[i], value, self.results[i])

    def _epilogue(self, rows: dict[int, RowMoments]) -> None:
        """Emits the results of the part of the columns that is bound: stores them, or adds what is summed along rows to `rows`."""
        b, p = self.b, self.product
        for i, result in enumerate(p.results):
            if p.stacked and p.stacked[i]:
                self._store_over_rows(result, self.results[i])
            elif p.summed[i]:
                block_moments = self._moments(b.block(result.expr), centered=p.centered[i])
                rows[i] = block_moments.joined(rows[i]) if i in rows else block_moments
            else:
                b.store(result.expr, self.results[i], result.dtype, result.offset)

    def _part(self, total: ir.Value, part: int) -> ir.Value:
        if self.config.split == 1:
            return total
        shape = [self.config.m, self.config.n // self.config.split]
        return vector.extract_strided_slice(ir.VectorType.get(shape, ir.F32Type.get()), total, [0, part * shape[1]], shape, [1, 1])

    def _store_over_rows(self, result: Result, memory: ir.Value) -> None:
        """Stores the sums of a block's columns, over the rows that the product has, in one row of a [row blocks, columns] array
        of f32."""
        b, (m, n) = self.b, self.b.sides
        value = b.block(result.expr)
        if m.cut:
            value = tiles.zero_past(b, value, 0)
        sums = view(b, memory, 0, [-(-m.extent // m.step), n.extent], [n.extent, 1])
        bounds = bool_array([True, not n.cut])
        vector.transfer_write(None, over_rows(value), sums, [self.row, b.start(n.axis)], last_dims_map(2), in_bounds=bounds)

    def _moments(self, value: ir.Value, *, centered: bool) -> RowMoments:
        """Returns the sum of each row of a block over the columns that the product has and, if centered, the sum of squared
        distances from their mean."""
        b, n = self.b, self.b.sides[1]
        if n.cut:
            value = tiles.zero_past(b, value, 1)
        total = along_rows(value)
        if not centered:
            return RowMoments(total)
        count = constant(float(n.size))
        if n.cut:
            zero = b.number(0)
            columns_left = arith.maxsi(arith.minsi(arith.subi(b.number(n.extent), b.start(n.axis)), b.number(n.size)), zero)
            count = arith.sitofp(ir.F32Type.get(), arith.index_cast(ir.IntegerType.get_signless(32), columns_left))
            count = vector.broadcast(constant(0.0).type, count)
        mean = broadcast_binary(arith.divf, total, arith.maximumf(count, constant(1.0)))
        distances = broadcast_binary(arith.subf, value, mean)
        if n.cut:
            distances = tiles.zero_past(b, distances, 1)
        return RowMoments(total, along_rows(arith.mulf(distances, distances)), count)

    def _store_sums(self, result: Result, value: ir.Value, memory: ir.Value) -> None:
        """Stores a value per row in one column of a [rows, column blocks] array of f32, which is contiguous in the order of the
        product's rows."""
        b, p, (m, n) = self.b, self.product, self.b.sides
        blocks = -(-n.extent // n.step)
        index = p.merged.index(result.offset)
        axes = (*(x for x in p.batch if index.coefficient(x)), p.m)
        strides = [*(index.coefficient(x) // n.extent * blocks if x is not None else 0 for x in axes), 1]
        sums = view(b, memory, 0, [*map(extent, axes), blocks], strides)
        where = [*map(b.start, axes), self.column]
        vector.transfer_write(None, value, sums, where, last_dims_map(len(where)), in_bounds=bool_array([not m.cut, True]))

    def _place(self, program: ir.Value) -> None:
        """Maps a program id to its output tile. The last two axes are visited in groups of rows of tiles, so that neighbors share
        operands (L2 reuse)."""
        b, c, p = self.b, self.config, self.product
        down, across = -(-extent(p.m) // c.m), -(-extent(p.n) // c.n)
        rest = program
        if p.batch:
            tiles_each = b.number(down * across)
            rest, batch_rest = arith.remui(program, tiles_each), arith.divui(program, tiles_each)
            for axis in reversed(p.batch):
                b.bind(axis, arith.remui(batch_rest, b.number(axis.extent)))
                batch_rest = arith.divui(batch_rest, b.number(axis.extent))
        if down == 1 or across == 1 or c.group == 1:
            wide = b.number(across)
            i, j = arith.divui(rest, wide), arith.remui(rest, wide)
        else:
            rows_of_tiles = minimum(c.group, down)
            width = b.number(rows_of_tiles * across)
            first = arith.muli(arith.divui(rest, width), b.number(rows_of_tiles))
            rows = arith.minui(arith.subi(b.number(down), first), b.number(rows_of_tiles))
            within = arith.remui(rest, width)
            i, j = arith.addi(first, arith.remui(within, rows)), arith.divui(within, rows)
        self.row, self.column = i, j
        for side, position, size in ((p.m, i, c.m), (p.n, j, c.n)):
            start = arith.muli(position, b.number(size))
            if side is not None:
                b.bind(side, start)

    def _sums(self) -> list[ir.Value]:
        """Emits the K loop and returns the accumulator of each product. The left operand, which they share, is read once."""
        b, c, p = self.b, self.config, self.product
        m, n, k = Side(p.m, c.m, c.m), Side(p.n, c.n, c.n), Side(p.inner, c.k, c.k)
        zero = filled([c.m, c.n], 0.0, ir.F32Type.get())

        def body(k_start: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            """Multiplies one block of the inner dimension."""
            left = self._factor(p.a, (m, k), k_start)
            return [
                vector.contract(zero.type, left, self._factor(e, (k, n), k_start), acc, *_rows_by_columns())
                for e, acc in zip(p.bs, sums, strict=True)
            ]

        return b.loop(b.number(0), b.number(k.extent), c.k, [zero] * len(p.products), body)

    def _factor(self, e: Expr, sides: tuple[Side, Side], k_start: ir.Value) -> ir.Value:
        """Returns an operand's block at `k_start` of the K loop: loaded as it is, or computed, rounded, and zero past the
        end. What does not vary along K is emitted in front of the loop."""
        b, p = self.b, self.product
        b.sides = sides
        with b.scope(b.stack[-1].block), b.point():
            if p.inner is not None:
                b.bind(p.inner, k_start)
            if isinstance(e, Load) and b.memory[e.tensor][1] == ("f32" if p.factors == "tf32" else p.factors):
                return tiles.read(b, e, sides)
            narrow, value = block_shape(b.value(e)), b.block(e)
            for d, side in enumerate(sides):
                same = narrow[d] == 1  # along K: Triton's dot broadcasts nothing
                if side.axis is None or (side.axis is p.inner and (same or side.cut)):
                    value = tiles.zero_past(b, value, d)
            return value if p.factors == "tf32" else arith.truncf(ir.VectorType.get(block_shape(value), element(p.factors)), value)


def output_tiles(product: Contraction, config: GemmConfig) -> SizeLike:
    """Returns the number of output tiles, which is the number of programs."""
    m, n, _ = product.sizes
    return product.batches * -(-m // config.m) * -(-n // config.n)


def _rows_by_columns() -> tuple[ir.ArrayAttr, ir.ArrayAttr]:
    """Returns the indexing maps and iterator types of a vector.contract of [m, k] by [k, n]."""
    i, j, k = (ir.AffineDimExpr.get(d) for d in range(3))
    maps = [ir.AffineMapAttr.get(ir.AffineMap.get(3, 0, pair)) for pair in ([i, k], [k, j], [i, j])]
    kinds = [ir.Attribute.parse(f"#vector.iterator_type<{kind}>") for kind in ("parallel", "parallel", "reduction")]
    return ir.ArrayAttr.get(maps), ir.ArrayAttr.get(kinds)
