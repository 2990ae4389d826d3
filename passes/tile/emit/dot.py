"""GEMM as block programs: one program computes an output tile in a loop over K blocks of the operands, then its epilogue in
registers.

Blocks are vectors of rank 2; values that vary along rows or columns alone have size 1 along the other dimension.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector

from lamina.schedules.contraction import GemmConfig

from ...ir.expressions import HALF, Const, Expr, Load
from ...space.contraction import Contraction, extent
from ...space.space import Result
from .blocks import Axes, Done, MatrixBlocks, Memory
from .moments import RowMoments, along_rows, constant, like, over_rows
from .scopes import element


@dataclass(frozen=True)
class Factor:
    """An operand of the product.

    expr   its value: elements of memory, or a prologue computed from them
    axes   that its blocks run along
    shape  of its blocks
    """

    expr: Expr
    axes: Axes
    shape: tuple[int, int]


class Dot(MatrixBlocks):
    """Emits the program of one output tile into `entry`. memory: each tensor's memref and element type; results: their memrefs."""

    def __init__(
        self, entry: ir.Block, product: Contraction, config: GemmConfig, memory: Memory, results: Sequence[ir.Value]
    ) -> None:
        super().__init__(entry, product, config, memory)
        self.results = results

    def emit(self, program: ir.Value) -> None:
        """Emits the program of output tile number `program`: the K loop, then the epilogue in `split` parts of its columns."""
        self._place(program)
        totals = self._sums()
        first = self.at[self.product.n]
        self.width = self.config.n // self.config.split
        self.shape = self.config.m, self.width
        rows: dict[int, RowMoments] = {}  # moments of the rows so far, by result
        for part in range(self.config.split if self.product.n else 1):
            self.at[self.product.n] = arith.addi(first, self._number(part * self.width)) if part else first
            self.done = {sum_: self._part(total, part) for sum_, total in zip(self.product.products, totals, strict=True)}
            for i, result in enumerate(self.product.results):
                if self.product.stacked and self.product.stacked[i]:
                    self._store_over_rows(result, self.results[i])
                    continue
                if not self.product.summed[i]:
                    self._store(result, self.results[i])
                    continue
                here = self._moments(self._whole(self._value(result.expr)), centered=self.product.centered[i])
                rows[i] = here.joined(rows[i]) if i in rows else here
        for i, found in rows.items():
            value = found.sum if found.squares is None else found.squares
            self._store_sums(self.product.results[i], value, self.results[i])

    def _part(self, total: ir.Value, part: int) -> ir.Value:
        if self.config.split == 1:
            return total
        shape = [self.config.m, self.width]
        i64 = ir.IntegerType.get_signless(64)
        places = [[0, part * self.width], shape, [1, 1]]
        offsets, sizes, strides = (ir.ArrayAttr.get([ir.IntegerAttr.get(i64, n) for n in p]) for p in places)
        return vector.extract_strided_slice(ir.VectorType.get(shape, ir.F32Type.get()), total, offsets, sizes, strides)

    def _store(self, result: Result, memory: ir.Value) -> None:
        value = self._whole(self._value(result.expr))
        stored = element(result.dtype)
        if result.dtype in HALF:
            value = arith.truncf(ir.VectorType.get(ir.VectorType(value.type).shape, stored), value)
        view, where, dims, inside = self._view(memory, result.at, (self.product.m, self.product.n))
        vector.transfer_write(None, value, view, where, dims, in_bounds=inside)

    def _store_over_rows(self, result: Result, memory: ir.Value) -> None:
        """Stores the sums of a block's columns, over the rows that the product has, in one row of a [row blocks, columns] array
        of f32."""
        m, n = self.product.m, self.product.n
        value = self._whole(self._value(result.expr))
        if extent(m) % self.config.m:
            value = self._where_inside(value, 0, m)
        sizes, strides = [-(-extent(m) // self.config.m), extent(n)], [extent(n), 1]
        type_ = ir.MemRefType.get(sizes, ir.F32Type.get(), ir.StridedLayoutAttr.get(0, strides))
        with ir.InsertionPoint.at_block_begin(self.entry):
            view = memref.ReinterpretCastOp(type_, memory, [], [], [], [0], sizes, strides).result
        bounds = ir.ArrayAttr.get([ir.BoolAttr.get(i) for i in (True, extent(n) % self.config.n == 0)])
        dims = ir.AffineMap.get_identity(2)
        vector.transfer_write(None, over_rows(value), view, [self.row, self.at[n]], dims, in_bounds=bounds)

    def _moments(self, value: ir.Value, *, centered: bool) -> RowMoments:
        """Returns the sum of each row of a block over the columns that the product has and, if centered, the sum of squared
        distances from their mean."""
        n = self.product.n
        cut = extent(n) % self.config.n != 0
        if cut:
            value = self._where_inside(value, 1, n)
        total = along_rows(value)
        if not centered:
            return RowMoments(total)
        count = constant(float(self.width))
        if cut:
            zero = self._number(0)
            left = arith.maxsi(arith.minsi(arith.subi(self._number(extent(n)), self.at[n]), self._number(self.width)), zero)
            count = arith.sitofp(ir.F32Type.get(), arith.index_cast(ir.IntegerType.get_signless(32), left))
            count = vector.broadcast(constant(0.0).type, count)
        mean = arith.divf(total, like(arith.maximumf(count, constant(1.0)), total))
        away = arith.subf(value, like(mean, value))
        if cut:
            away = self._where_inside(away, 1, n)
        return RowMoments(total, along_rows(arith.mulf(away, away)), count)

    def _store_sums(self, result: Result, value: ir.Value, memory: ir.Value) -> None:
        """Stores a value per row in one column of a [rows, column blocks] array of f32, which is contiguous in the order of the
        product's rows."""
        p, n = self.product, extent(self.product.n)
        blocks = -(-n // self.config.n)
        at = result.at.rename(p.merged.rename)
        axes = (*(x for x in p.batch if at.coefficient(x)), p.m)
        sizes = [*map(extent, axes), blocks]
        strides = [*(at.coefficient(x) // n * blocks if x is not None else 0 for x in axes), 1]
        layout = ir.StridedLayoutAttr.get(0, strides)
        type_ = ir.MemRefType.get(sizes, ir.F32Type.get(), layout)
        with ir.InsertionPoint.at_block_begin(self.entry):
            view = memref.ReinterpretCastOp(type_, memory, [], [], [], [0], sizes, strides).result
        where = [*(self.at[x] if x is not None else self._number(0) for x in axes), self.column]
        last = [ir.AffineDimExpr.get(len(axes) - 1 + d) for d in range(2)]
        inside = [extent(p.m) % self.config.m == 0, True]
        bounds = ir.ArrayAttr.get([ir.BoolAttr.get(i) for i in inside])
        vector.transfer_write(None, value, view, where, ir.AffineMap.get(len(sizes), 0, last), in_bounds=bounds)

    def _place(self, program: ir.Value) -> None:
        """Maps a program id to its output tile. The last two axes are visited in groups of rows of tiles, so that neighbors share
        operands (L2 reuse)."""
        c, p = self.config, self.product
        down, across = -(-extent(p.m) // c.m), -(-extent(p.n) // c.n)
        rest = program
        if p.batch:
            squares = self._number(down * across)
            rest, left = arith.remui(program, squares), arith.divui(program, squares)
            for axis in reversed(p.batch):
                self.at[axis] = arith.remui(left, self._number(axis.extent))
                left = arith.divui(left, self._number(axis.extent))
        if down == 1 or across == 1 or c.group == 1:
            wide = self._number(across)
            i, j = arith.divui(rest, wide), arith.remui(rest, wide)
        else:
            width = self._number(min(c.group, down) * across)
            first = arith.muli(arith.divui(rest, width), self._number(min(c.group, down)))
            rows = arith.minui(arith.subi(self._number(down), first), self._number(min(c.group, down)))
            within = arith.remui(rest, width)
            i, j = arith.addi(first, arith.remui(within, rows)), arith.divui(within, rows)
        self.row, self.column = i, j
        self.at[p.m], self.at[p.n] = arith.muli(i, self._number(c.m)), arith.muli(j, self._number(c.n))
        if p.m is None or p.n is None:
            self.at[None] = self._number(0)

    def _sums(self) -> list[ir.Value]:
        """Emits the K loop and returns the accumulator of each product. The left operand, which they share, is read once."""
        c, p = self.config, self.product
        whole = ir.VectorType.get([c.m, c.n], ir.F32Type.get())
        zero = arith.constant(whole, ir.DenseElementsAttr.get_splat(whole, ir.FloatAttr.get(ir.F32Type.get(), 0.0)))
        inits = [zero] * len(p.products)
        left, *others = factors = [Factor(p.a, (p.m, p.inner), (c.m, c.k)), *(Factor(b, (p.inner, p.n), (c.k, c.n)) for b in p.bs)]
        kept = {f: self._before(f) for f in factors}
        loop = scf.ForOp(self._number(0), self._number(extent(p.inner)), self._number(c.k), inits)
        with ir.InsertionPoint(loop.body):
            self.at[p.inner] = loop.induction_variable
            a = self._factor(left, kept[left])
            out = []
            for factor, acc in zip(others, loop.inner_iter_args, strict=True):
                out.append(vector.contract(whole, a, self._factor(factor, kept[factor]), acc, *_rows_by_columns()))
            scf.YieldOp(out)
        return list(loop.results)

    def _before(self, factor: Factor) -> Done:
        """Emits the parts of an operand that do not vary along the K dimension, before the loop."""
        inner, found = self.product.inner, Done()
        if not self._is_loaded(factor.expr):
            with self._blocks_of(factor, found):
                stack = [factor.expr]
                while stack:
                    e = stack.pop()
                    if inner in self._axes_of(e):
                        stack.extend(e.args)
                    elif not isinstance(e, Const):
                        self._value(e)
        return found

    def _factor(self, factor: Factor, kept: Done) -> ir.Value:
        """Returns an operand's block at the current position of the K loop: loaded as it is, or computed, rounded, and zero past
        the end."""
        if isinstance(factor.expr, Load) and self._is_loaded(factor.expr):
            return self._read(factor.expr, factor.axes, factor.shape)
        with self._blocks_of(factor, dict(kept)):
            narrow = self._value(factor.expr)
            value = self._broadcast(narrow, factor.shape)
        for side, axis in enumerate(factor.axes):
            same = ir.VectorType(narrow.type).shape[side] == 1  # along K: Triton's dot broadcasts nothing
            if axis is None or (axis == self.product.inner and (same or extent(axis) % factor.shape[side])):
                value = self._where_inside(value, side, axis)
        dtype = self.product.factors
        return value if dtype == "tf32" else arith.truncf(ir.VectorType.get(factor.shape, element(dtype)), value)

    def _is_loaded(self, e: Expr) -> bool:
        """Returns whether memory holds an operand in the type that tensor cores take."""
        stored = "f32" if self.product.factors == "tf32" else self.product.factors
        return isinstance(e, Load) and self.memory[e.tensor][1] == stored

    @contextmanager
    def _blocks_of(self, factor: Factor, done: Done) -> Iterator[None]:
        """Makes emitted values blocks of an operand while open. done: values emitted before."""
        before = self.axes, self.shape, self.done
        self.axes, self.shape, self.done = factor.axes, factor.shape, done
        yield
        self.axes, self.shape, self.done = before


def squares(product: Contraction, config: GemmConfig) -> int:
    """Returns the number of output tiles, which is the number of programs."""
    m, n, _ = product.sizes
    return product.batches * -(-m // config.m) * -(-n // config.n)


def _rows_by_columns() -> tuple[ir.ArrayAttr, ir.ArrayAttr]:
    """Returns the indexing maps and iterator types of a vector.contract of [m, k] by [k, n]."""
    i, j, k = (ir.AffineDimExpr.get(d) for d in range(3))
    maps = [ir.AffineMapAttr.get(ir.AffineMap.get(3, 0, pair)) for pair in ([i, k], [k, j], [i, j])]
    kinds = [ir.Attribute.parse(f"#vector.iterator_type<{kind}>") for kind in ("parallel", "parallel", "reduction")]
    return ir.ArrayAttr.get(maps), ir.ArrayAttr.get(kinds)
