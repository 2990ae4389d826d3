"""Products of matrices as block programs: squares of the result, each a loop over blocks of the factors, and what follows in
registers. Blocks are vectors of rank 2; those of a row or a column have 1 for the other size."""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector

from lamina.schedules.contraction import Config

from .affine import Affine, Axis
from .contraction import Contraction, extent
from .emit_scopes import attribute, element
from .expressions import HALF, Apply, Const, Expr, Load
from .space import Result


class Dot:
    """Emits the program of one square into `entry`. memory: the memref of each tensor that is read, and its element type."""

    def __init__(
        self,
        entry: ir.Block,
        product: Contraction,
        config: Config,
        memory: dict[Any, tuple[ir.Value, str]],
        results: Sequence[ir.Value],
    ) -> None:
        self.entry, self.product, self.config, self.memory, self.results = entry, product, config, memory, results
        self.done: dict[Expr, ir.Value] = {}
        self.at: dict[Axis | None, ir.Value] = {}
        self.width = config.n
        self.numbers: dict[int, ir.Value] = {}

    def emit(self, program: ir.Value) -> None:
        """program: the number of the square."""
        self._place(program)
        totals = self._sums()
        first = self.at[self.product.n]
        self.width = self.config.n // self.config.split
        rows: dict[int, ir.Value] = {}  # sums along them, by result
        for part in range(self.config.split if self.product.n else 1):
            self.at[self.product.n] = arith.addi(first, self._number(part * self.width)) if part else first
            self.done = {sum_: self._part(total, part) for sum_, total in zip(self.product.products, totals, strict=True)}
            for i, result in enumerate(self.product.results):
                if not self.product.summed[i]:
                    self._store(result, self.results[i])
                    continue
                here = self._along_rows(self._whole(self._value(result.expr)))
                rows[i] = arith.addf(rows[i], here) if i in rows else here
        for i, value in rows.items():
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

    def _along_rows(self, value: ir.Value) -> ir.Value:
        """The sum of each row of a block, of the columns that the product has."""
        c, n = self.config, extent(self.product.n)
        f32 = ir.F32Type.get()
        if n % c.n:
            whole = ir.VectorType(value.type)
            one = ir.VectorType.get([1, self.width], ir.IntegerType.get_signless(1))
            left = arith.subi(self._number(n), self.at[self.product.n])
            mask = vector.create_mask(one, [self._number(1), left])
            mask = vector.broadcast(ir.VectorType.get(whole.shape, one.element_type), mask)
            zero = arith.constant(whole, ir.DenseElementsAttr.get_splat(whole, ir.FloatAttr.get(f32, 0.0)))
            value = arith.select(mask, value, zero)
        row = ir.VectorType.get([c.m], f32)
        zero = arith.constant(row, ir.DenseElementsAttr.get_splat(row, ir.FloatAttr.get(f32, 0.0)))
        sums = vector.multi_reduction(ir.Attribute.parse("#vector.kind<add>"), value, zero, [1])
        return vector.shape_cast(ir.VectorType.get([c.m, 1], f32), sums)

    def _store_sums(self, result: Result, value: ir.Value, memory: ir.Value) -> None:
        """One column of [rows, blocks], behind each other in memory as rows of the product are numbered."""
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
        """Which square: the last two axes in groups of rows of squares, so that neighbours share factors."""
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
        self.column = j
        self.at[p.m], self.at[p.n] = arith.muli(i, self._number(c.m)), arith.muli(j, self._number(c.n))
        if p.m is None or p.n is None:
            self.at[None] = self._number(0)

    def _sums(self) -> list[ir.Value]:
        """The block of each product, from one loop that reads what they share once."""
        c, p = self.config, self.product
        whole = ir.VectorType.get([c.m, c.n], ir.F32Type.get())
        zero = arith.constant(whole, ir.DenseElementsAttr.get_splat(whole, ir.FloatAttr.get(ir.F32Type.get(), 0.0)))
        inits = [zero] * len(p.products)
        loop = scf.ForOp(self._number(0), self._number(extent(p.inner)), self._number(c.k), inits)
        with ir.InsertionPoint(loop.body):
            self.at[p.inner] = loop.induction_variable
            a = self._read(p.a, (p.m, p.inner), (c.m, c.k))
            out = []
            for b, acc in zip(p.bs, loop.inner_iter_args, strict=True):
                block = self._read(b, (p.inner, p.n), (c.k, c.n))
                out.append(vector.contract(whole, a, block, acc, *_rows_by_columns()))
            scf.YieldOp(out)
        return list(loop.results)

    def _value(self, e: Expr) -> ir.Value:
        found = self.done.get(e)
        if found is None:
            found = self.done[e] = self._emit(e)
        return found

    def _emit(self, e: Expr) -> ir.Value:
        if isinstance(e, Const):
            one = ir.VectorType.get([1, 1], element(e.dtype))
            return arith.constant(one, ir.DenseElementsAttr.get_splat(one, attribute(e.value, element(e.dtype))))
        if isinstance(e, Load):
            axes = {self.product.merged.axis_of.get(x, x) for x in e.free}
            m, n = (axis if axis in axes else None for axis in (self.product.m, self.product.n))
            raw = self._read(e, (m, n), (self.config.m if m else 1, self.width if n else 1))
            return self._from_memory(raw, self.memory[e.tensor][1])
        assert isinstance(e, Apply), e
        values = [self._value(x) for x in e.operands]
        shape = [max(ir.VectorType(v.type).shape[d] for v in values) for d in range(2)]
        values = [self._broadcast(v, shape) for v in values]
        attributes = {}
        if e.predicate is not None:
            attributes["predicate"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), e.predicate)
        result = ir.VectorType.get(shape, element(e.dtype))
        return ir.Operation.create(e.op, results=[result], operands=values, attributes=attributes).results[0]

    def _from_memory(self, raw: ir.Value, dtype: str) -> ir.Value:
        shape = ir.VectorType(raw.type).shape
        if dtype in HALF:
            return arith.extf(ir.VectorType.get(shape, ir.F32Type.get()), raw)
        if dtype == "i1":
            zero = arith.constant(
                raw.type, ir.DenseElementsAttr.get_splat(raw.type, attribute(0, ir.VectorType(raw.type).element_type))
            )
            return arith.cmpi(arith.CmpIPredicate.ne, raw, zero)
        return raw

    def _whole(self, value: ir.Value) -> ir.Value:
        return self._broadcast(value, [self.config.m, self.width])

    def _broadcast(self, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        type_ = ir.VectorType(value.type)
        return value if list(type_.shape) == list(shape) else vector.broadcast(ir.VectorType.get(shape, type_.element_type), value)

    def _read(self, load: Load, axes: tuple[Axis | None, Axis | None], shape: tuple[int, int]) -> ir.Value:
        memory, _ = self.memory[load.tensor]
        view, where, dims, inside = self._view(memory, load.at, axes, shape)
        stored = ir.MemRefType(view.type).element_type
        pad = arith.constant(stored, attribute(0, stored))
        return vector.transfer_read(ir.VectorType.get(shape, stored), view, where, dims, pad, in_bounds=inside)

    def _view(
        self, memory: ir.Value, at: Affine, axes: tuple[Axis | None, Axis | None], shape: tuple[int, int] | None = None
    ) -> tuple[ir.Value, list[ir.Value], ir.AffineMap, ir.ArrayAttr]:
        """Memory as seen along the batch and two axes, where the square lies in it, which of its dimensions are the block's, and
        whether the block lies inside along each."""
        shape = shape or (self.config.m, self.width)
        at = at.rename(self.product.merged.rename)
        outer = tuple(x for x in self.product.batch if at.coefficient(x))
        sizes = [extent(x) for x in (*outer, *axes)]
        strides = [at.coefficient(x) if x is not None else 0 for x in (*outer, *axes)]
        layout = ir.StridedLayoutAttr.get(at.constant, strides)
        type_ = ir.MemRefType.get(sizes, ir.MemRefType(memory.type).element_type, layout)
        with ir.InsertionPoint.at_block_begin(self.entry):
            view = memref.ReinterpretCastOp(type_, memory, [], [], [], [at.constant], sizes, strides).result
        where = [self.at[x] if x is not None else self._number(0) for x in (*outer, *axes)]
        last = [ir.AffineDimExpr.get(len(outer) + d) for d in range(2)]
        whole = [self.config.n if n == self.width and x is self.product.n else n for x, n in zip(axes, shape, strict=True)]
        inside = [extent(x) % n == 0 for x, n in zip(axes, whole, strict=True)]  # every part of the last block
        return view, where, ir.AffineMap.get(len(sizes), 0, last), ir.ArrayAttr.get([ir.BoolAttr.get(i) for i in inside])

    def _number(self, n: int) -> ir.Value:
        if n not in self.numbers:
            with ir.InsertionPoint.at_block_begin(self.entry):
                self.numbers[n] = arith.constant(ir.IndexType.get(), n)
        return self.numbers[n]


def squares(product: Contraction, config: Config) -> int:
    """How many programs there are."""
    m, n, _ = product.sizes
    return product.batches * -(-m // config.m) * -(-n // config.n)


def _rows_by_columns() -> tuple[ir.ArrayAttr, ir.ArrayAttr]:
    """Which loops a product's factors and result run over, and that the last is summed over."""
    i, j, k = (ir.AffineDimExpr.get(d) for d in range(3))
    maps = [ir.AffineMapAttr.get(ir.AffineMap.get(3, 0, pair)) for pair in ([i, k], [k, j], [i, j])]
    kinds = [ir.Attribute.parse(f"#vector.iterator_type<{kind}>") for kind in ("parallel", "parallel", "reduction")]
    return ir.ArrayAttr.get(maps), ir.ArrayAttr.get(kinds)
