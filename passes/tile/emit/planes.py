"""Depthwise convolution on a CPU: one program computes rows of one channel (a plane) from a copy of the image with zeros around
it.

The copy is in scratch memory that stays in the caches. With it no load is masked, and none checks where the image ends. Columns
are split there by their remainder modulo the stride (phases), so that neighboring sums read neighbors. A tile of sums is in
registers: each block of pixels that is loaded is multiplied for every row of the tile that has it in its windows.
"""

from functools import partial

from torch_mlir import ir
from torch_mlir.dialects import arith, math, memref, vector

from lamina.schedules import cpu

from ...ir.affine import Affine
from ...space.planes import Planes
from ...space.space import Space
from .blocks import Blocks, Frame


class PlaneProgram:
    """Emits the body of one kernel."""

    def __init__(self, frame: Frame, space: Space, schedule: Planes) -> None:
        self.schedule = schedule
        self.b = Blocks(frame, schedule.merged, schedule.lanes)
        self.results = list(zip(space.results, frame.results, strict=True))
        self.f32 = ir.F32Type.get()

    def emit(self, program: ir.Value) -> None:
        """Emits the program whose number in the grid is `program`: the padded copy, then the sums from it."""
        b, p = self.b, self.schedule
        axes = p.batch, p.channel, p.chunks
        for axis, at in zip(reversed(axes), b.digits(program, [a.extent for a in axes]), strict=True):
            b.bind(axis, at)
        steps = p.window.stride[1]
        with b.point(0):
            copy = memref.AllocaOp(ir.MemRefType.get([p.height * p.width * steps], self.f32), [], [], alignment=64).result
            line = memref.AllocaOp(ir.MemRefType.get([p.width * steps], self.f32), [], [], alignment=64).result
        first = arith.muli(b.bound[p.chunks][1], b.number(p.chunk))
        self._fill(copy, copy if steps == 1 else line, first)
        b.vector = p.column
        whole = p.chunk // p.rows * p.rows
        self._tiles(copy, first, 0, whole, p.rows)
        if whole < p.chunk:
            self._tiles(copy, first, whole, p.chunk, p.chunk - whole)

    # -- the copy

    def _fill(self, copy: ir.Value, line: ir.Value, first: ir.Value) -> None:
        """Copies the image rows that this program's windows read, with zeros around them."""
        b, p = self.b, self.schedule
        origin = b.index(p.origin)
        top = arith.addi(arith.muli(first, b.number(p.window.stride[0])), b.number(-p.window.padding[0]))
        width = p.width * p.window.stride[1]

        def row(i: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            y = arith.addi(top, i)
            to = arith.muli(i, b.number(width))
            start = to if line is copy else b.number(0)
            inside = arith.andi(
                arith.cmpi(arith.CmpIPredicate.sge, y, b.number(0)), arith.cmpi(arith.CmpIPredicate.slt, y, b.number(p.size[0]))
            )
            b.branch(
                inside,
                lambda: self._copy_row(line, start, arith.addi(origin, arith.muli(y, b.number(p.pitch)))),
                lambda: self._zeros(line, start, range(0, width, cpu.VECTOR)),
            )
            if line is not copy:
                self._part(line, copy, to)
            return []

        b.loop(b.number(0), b.number(p.height), 1, [], row)

    def _copy_row(self, line: ir.Value, start: ir.Value, at: ir.Value) -> None:
        """Copies the image row that starts at `at`, behind the padding. What no window reads is left out."""
        b, p = self.b, self.schedule
        pad, width = p.window.padding[1], p.width * p.window.stride[1]
        count = min(p.size[1], width - pad)
        flat = b.memory[p.image.tensor][0]
        self._zeros(line, start, [x for x in range(0, width, cpu.VECTOR) if x < pad or x + cpu.VECTOR > pad + count])
        begin = arith.addi(start, b.number(pad))
        whole = count // cpu.VECTOR * cpu.VECTOR
        if whole:

            def move(x: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
                vector.store(vector.load(_block(), flat, [arith.addi(at, x)]), line, [arith.addi(begin, x)])
                return []

            b.loop(b.number(0), b.number(whole), cpu.VECTOR, [], move)
        if whole < count:
            lanes = ir.VectorType.get([cpu.VECTOR], ir.IntegerType.get_signless(1))
            mask = vector.create_mask(lanes, [b.number(count - whole)])
            last = b.number(whole)
            read = vector.maskedload(_block(), flat, [arith.addi(at, last)], mask, self._zero())
            vector.maskedstore(line, [arith.addi(begin, last)], mask, read)

    def _zeros(self, line: ir.Value, start: ir.Value, places: range | list[int]) -> None:
        zero = self._zero()
        for x in places:
            vector.store(zero, line, [arith.addi(start, self.b.number(x))])

    def _zero(self) -> ir.Value:
        return self.b.splat(0.0, self.f32, (cpu.VECTOR,))

    def _part(self, line: ir.Value, copy: ir.Value, to: ir.Value) -> None:
        """Splits a row into phases: columns that are a stride apart become neighbors."""
        b, p = self.b, self.schedule
        steps = p.window.stride[1]
        wide = ir.VectorType.get([cpu.VECTOR * steps], self.f32)

        def pick(x: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            everything = vector.load(wide, line, [arith.muli(x, b.number(steps))])
            for phase in range(steps):
                picked = ir.DenseI64ArrayAttr.get([i * steps + phase for i in range(cpu.VECTOR)])
                taken = vector.shuffle(everything, everything, picked)
                vector.store(taken, copy, [arith.addi(arith.addi(to, b.number(phase * p.width)), x)])
            return []

        b.loop(b.number(0), b.number(p.width), cpu.VECTOR, [], pick)

    # -- sums

    def _tiles(self, copy: ir.Value, first: ir.Value, low: int, high: int, rows: int) -> None:
        """Emits the sums of this program's rows from `low` to `high`, `rows` of them at a time."""
        b, p = self.b, self.schedule
        whole = p.column.extent // p.lanes * p.lanes

        def tiles(row: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            place = arith.addi(first, row)
            if whole:
                b.loop(
                    b.number(0), b.number(whole), p.lanes, [], lambda column, _: self._tile(copy, row, place, column, rows, None)
                )
            if whole < p.column.extent:
                with b.scope(b.stack[-1].block):
                    self._tile(copy, row, place, b.number(whole), rows, p.column.extent - whole)
            return []

        b.loop(b.number(low), b.number(high), rows, [], tiles)

    def _tile(
        self, copy: ir.Value, row: ir.Value, place: ir.Value, column: ir.Value, rows: int, left: int | None
    ) -> list[ir.Value]:
        """Emits the sums of `rows` rows for a block of columns, their epilogue and stores. row: the first one, in the program;
        place: the same, in the image; left: columns of a partial block."""
        b, p = self.b, self.schedule
        b.bind(p.column, column)
        if left is not None:
            b.stack[-1].mask = b.memoized(("mask", left), 0, lambda: b.mask_before(b.number(left)))
        mask = b.stack[-1].mask
        with b.point():
            sums = self._sums(copy, row, column, rows)
        for r, total in enumerate(sums):
            with b.scope(b.stack[-1].block, mask=mask):
                with b.point():
                    b.bind(p.row, arith.addi(place, b.number(r)))
                b.stack[-1].memo[p.product] = total
                for result, flat in self.results:
                    b.store(result.expr, flat, result.dtype, result.at, result.paired)
        return []

    def _sums(self, copy: ir.Value, row: ir.Value, column: ir.Value, rows: int) -> list[ir.Value]:
        """Emits a tile of sums: loads every block of pixels once, and the weights of one column of the window at a time."""
        b, p = self.b, self.schedule
        (tall, wide), (spread_down, spread_across) = p.window.stride, p.window.dilation
        length = p.width * wide
        start = arith.addi(arith.muli(row, b.number(tall * length)), column)
        block = ir.VectorType.get([p.lanes], self.f32)
        sums: list[ir.Value] = [b.splat(0.0, self.f32)] * rows
        uses: dict[int, list[tuple[int, int]]] = {}  # row of pixels -> (row of the tile, row of the window)
        for r in range(rows):
            for k in range(p.down.extent):
                uses.setdefault(r * tall + k * spread_down, []).append((r, k))
        for j in range(p.across.extent):
            shift, phase = divmod(j * spread_across, wide)
            weights = [self._weight(k, j) for k in range(p.down.extent)]
            for t in sorted(uses):
                at = arith.addi(start, b.number(t * length + phase * p.width + shift))
                pixels = vector.load(block, copy, [at])
                for r, k in uses[t]:
                    sums[r] = math.fma(pixels, weights[k], sums[r])
        return sums

    def _weight(self, k: int, j: int) -> ir.Value:
        b, p = self.b, self.schedule
        at = p.weight.at
        rest = Affine(at.constant, tuple((t, c) for t, c in at.terms if t not in (p.down, p.across)))
        step = at.coefficient(p.down) * k + at.coefficient(p.across) * j
        start = b.memoized("weights", 0, partial(b.index, rest))
        number = memref.load(b.memory[p.weight.tensor][0], [arith.addi(start, b.number(step))])
        return b.widen(number)


def _block() -> ir.VectorType:
    return ir.VectorType.get([cpu.VECTOR], ir.F32Type.get())
