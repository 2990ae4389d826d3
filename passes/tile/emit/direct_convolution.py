"""Direct convolution on a GPU: one program computes a strip, a segment of neighboring columns of an output row, and reads each
pixel of a row of the window once.

The sums of a strip stay in registers. The loop over the window's rows reads a row of pixels and of weights, and adds each of their
products to the sum that it belongs to. The loop skips rows outside of the image; columns outside of it are 0. If the strip's length
does not divide a row, two strips compute some columns, and store the same values. Sums over several input channels have an inner
loop over chunks of channels; one access reads a chunk of a pixel for all output channels of a thread.
"""

import itertools
from functools import partial, reduce

from torch_mlir import ir
from torch_mlir.dialects import arith, math

from lamina.core.sizes import at_most, below, known_part

from ...ir.affine import Affine, Axis
from ...ir.expressions import Apply, Const, Expr, InBounds, Interner, Load, Reduce, unlisted
from ...ir.guards import Bound, Guard, conjunction
from ...ir.sizes import i64
from ...space.direct_convolution import DirectConvolution
from ...space.space import Space
from . import bounds
from .blocks import Blocks, Frame
from .values import element

Change = dict[Axis, Affine]
"""Replacements of axes in indices."""


class WindowBlocks(Blocks):
    """Emits blocks with bounds checks hoisted out of the loop. The constant of an index is added last, so that indices that differ
    only in their constants share the rest."""

    def index(self, index: Affine) -> ir.Value:
        """Emits the scalar value of an index; the addition of its constant is marked `nsw`."""
        index = self.merged.index(index)
        number = known_part(index.constant)
        first = super().index(Affine(index.constant - number, index.terms))
        if not number:
            return first
        flags = ir.Attribute.parse("#arith.overflow<nsw>")
        depth = max((self.bound[t][0] for t, _ in index.terms if isinstance(t, Axis)), default=0)
        return self.memoized(("moved", index), depth, lambda: arith.addi(first, self.number(number), overflow_flags=flags))

    def condition(self, guard: Guard, wide: bool) -> ir.Value:
        """Emits whether all bounds of a guard hold, in one i1, or in all lanes if `wide`."""
        both = self.inside(guard)
        return self.widen(both) if wide else both

    def inside(self, guard: Guard) -> ir.Value:
        """Emits whether all bounds hold, as one i1, from only the comparisons that can fail."""
        conditions = [self.memoized(("inside", b), 0, partial(self._inside, b)) for b in guard]
        return reduce(arith.andi, conditions) if conditions else self.true(False)

    def _inside(self, b: Bound) -> ir.Value:
        return reduce(arith.andi, bounds.comparisons(b, self.index(b.index), self.number, b.index.bounds()))


class DirectConvolutionProgram:
    """Emits the body of one direct convolution kernel."""

    def __init__(self, frame: Frame, space: Space, schedule: DirectConvolution) -> None:
        self.schedule = schedule
        self.b = WindowBlocks(frame, schedule.merged, schedule.config.lanes)
        self.results = list(zip(space.results, frame.results, strict=True))
        self.make = Interner()
        self.pixel_first = schedule.axes.column in schedule.product.arg.args[0].free

    def emit(self, program: ir.Value) -> None:
        """Emits the program of strip number `program`: its sums, then the epilogue and the stores of each column."""
        self._place(program)
        sums = self._sums()
        for j, total in enumerate(sums):
            change = {self.schedule.axes.column: self._column(j)}
            self.b.stack[-1].memo[self._at(self.schedule.product, change)] = total
            within = self._within(change) if j else ()
            self.b.stack[-1].mask = self.b.condition(within, True) if within else None
            for r, flat in self.results:
                self.b.store(self._at(r.expr, change), flat, r.dtype, r.offset.rename(change))

    def _place(self, program: ir.Value) -> None:
        """Binds the axes to this program's position in the grid, which is, from the fastest dimension on: `inner` blocks of
        channels, strips of a row, rows, outer blocks of channels, images."""
        b, p, rest = self.b, self.schedule, program
        places = []
        for n in (p.inner, p.strips.extent, p.axes.row.extent, p.outer):
            places.append(arith.remui(rest, b.number(n)) if n != 1 else b.number(0))
            rest = arith.divui(rest, b.number(n)) if n != 1 else rest
        inner, strip, row, outer = places
        block = inner if p.outer == 1 else arith.addi(arith.muli(outer, b.number(p.inner)), inner)
        for axis, value in ((p.strips, strip), (p.axes.row, row), (p.axes.batch, rest)):
            b.bind(axis, value)
        if p.first is not None:
            begin = arith.muli(strip, b.number(p.length))
            b.bind(p.first, arith.minsi(begin, b.number(p.first.extent - 1)))
        b.bind(p.axes.channel, arith.muli(block, b.number(p.config.lanes)))
        b.vector = p.axes.channel

    def _column(self, j: int) -> Affine:
        """Returns the index of the strip's column `j` in its row."""
        return (
            Affine.of(self.schedule.first) if self.schedule.first else Affine.of(self.schedule.strips, self.schedule.length)
        ) + j

    def _sums(self) -> list[ir.Value]:
        """Emits the loops over the window's rows and channels; returns the sum of each column of the strip."""
        b, p = self.b, self.schedule
        low, high = self._rows()

        def row(at: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            """Adds the products of one row of the window."""
            b.bind(p.axes.down, at)
            if p.chunk == p.axes.depth.extent:
                return self._row(sums, Affine())
            return b.loop(b.number(0), b.number(p.axes.depth.extent), p.chunk, sums, channels)

        def channels(at: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            """Adds the products of one chunk of channels."""
            b.bind(p.axes.depth, at)
            return self._row(sums, Affine.of(p.axes.depth))

        return b.loop(low, high, 1, [b.splat(0.0, ir.F32Type.get())] * p.length, row)

    def _rows(self) -> tuple[ir.Value, ir.Value]:
        """Returns the range of window rows that are in the image: the first one, and the one after the last."""
        b, p = self.b, self.schedule
        first, last = b.number(0), b.number(p.axes.down.extent)
        if p.height is None:
            return first, last
        top = p.height.index + Affine.of(p.axes.down, -p.tall)  # the image row at which the window begins
        if not at_most(p.height.low, top.bounds()[0]):
            first = self._rows_to(arith.maxsi(first, arith.subi(b.number(p.height.low), b.index(top))))
        if not below(top.bounds()[1] + (p.axes.down.extent - 1) * p.tall, p.height.high):
            within = arith.maxsi(b.number(0), arith.subi(b.number(p.height.high), b.index(top)))
            last = arith.minsi(last, self._rows_to(within))
        return first, last

    def _rows_to(self, row: ir.Value) -> ir.Value:
        """Emits the number of rows of the window before image row `row`, which is counted from the window's first row."""
        b, tall = self.b, self.schedule.tall
        return row if tall == 1 else arith.divui(arith.addi(row, b.number(tall - 1)), b.number(tall))

    def _row(self, sums: list[ir.Value], channel: Affine) -> list[ir.Value]:
        """Emits the addition of one row of the window to the sums, pixel by pixel, for the chunk of channels from `channel` on."""
        p = self.schedule
        pixels: dict[int, list[Expr]] = {}  # position in a row of pixels -> one for each channel of the chunk
        weights: dict[int, list[Expr]] = {}
        uses: dict[int, list[tuple[int, int]]] = {}  # pixel -> (sum, its column in that sum's window)
        for j, k in itertools.product(range(p.length), range(p.axes.across.extent)):
            at = j * p.step + k * p.spread
            if at not in pixels or k not in weights:
                here = {p.axes.column: self._column(j), p.axes.across: Affine(k)}
                both = [self._factors({**here, p.axes.depth: channel + c}) for c in range(p.chunk)]
                pixels[at], weights[k] = [x for x, _ in both], [w for _, w in both]
            uses.setdefault(at, []).append((j, k))
        inside = {at: es for at, es in pixels.items() if not (isinstance(es[0], Const) and es[0].value == 0)}
        out = list(sums)
        if p.chunk == 1:
            for (e,) in inside.values():
                self.b.block(e)
        for es in weights.values():
            for e in es:
                self.b.block(e)
        for at, es in inside.items():
            self._read_together(es)
            for (c, e), (j, k) in itertools.product(enumerate(es), uses[at]):
                x, w = self.b.block(e), self.b.block(weights[k][c])
                with self.b.point():
                    out[j] = math.fma(x, w, out[j])
        return out

    def _read_together(self, pixel: list[Expr]) -> None:
        """Emits a single read of a chunk of a pixel's channels, which all output channels of a group use."""
        first = pixel[0]
        if len(pixel) == 1 or not isinstance(first, Load):
            return
        b, flat = self.b, self.b.memory[first.tensor][0]
        (jump,) = (c for t, c in b.merged.index(first.offset).terms if t in b.merged.quotients)
        at, depth = b.index(first.offset), b.depth(first)
        with b.point(depth):
            inside = b.inside(first.guard)
            read = ir.Operation.create(
                "tile.read_shared",
                results=[ir.VectorType.get([b.lanes], element("f32"))] * len(pixel),
                operands=[flat, at, b.bound[self.schedule.axes.channel][1], inside],
                attributes={"length": i64(self.schedule.features), "jump": i64(jump)},
            )
        b.stack[depth].memo.update(zip(pixel, read.results, strict=True))

    def _factors(self, here: Change) -> tuple[Expr, Expr]:
        """Returns the expressions of the pixel and the weight that are multiplied at a position of the window."""
        product = self.schedule.product.arg
        assert isinstance(product, Apply)
        one, two = (self._at(x, here) for x in product.operands)
        return (one, two) if self.pixel_first else (two, one)

    # -- expressions at a column of the strip and of the window

    def _at(self, e: Expr, change: Change) -> Expr:
        """Returns `e` with axes replaced as `change` says. Bounds on the window's row are left out, since the loop runs only over
        rows in the image."""
        moved: dict[Expr, Expr] = {}
        for x in unlisted(e, moved):
            moved[x] = self._moved(x, change, moved)
        return moved[e]

    def _moved(self, e: Expr, change: Change, moved: dict[Expr, Expr]) -> Expr:
        """Returns `e` with axes replaced, given its operands with axes replaced."""
        make = self.make
        match e:
            case Load():
                guard = self._guard(e.guard, change)
                if guard is not None and e.offset.coefficient(self.schedule.axes.column):
                    guard = conjunction(guard, self._within(change))
                return make.const(0, e.dtype) if guard is None else make.load(e.tensor, e.offset.rename(change), guard, e.dtype)
            case InBounds():
                guard = self._guard(e.guard, change)
                return make.const(False, "i1") if guard is None else make.in_bounds(guard)
            case Apply():
                return make.apply(e.op, tuple(moved[a] for a in e.operands), e.predicate, e.dtype)
            case Reduce():
                return make.reduce(e.op, self._at(e.arg, change), e.axes)
            case Const():
                return make.const(e.value, e.dtype)
        raise AssertionError(f"{type(e).__name__} in a strip")

    def _guard(self, guard: Guard, change: Change) -> Guard | None:
        """Returns the bounds that may fail after the replacement; None if one always fails."""
        bounds = [Bound(b.index.rename(change), b.low, b.high) for b in guard if not b.index.coefficient(self.schedule.axes.down)]
        return None if any(b.never for b in bounds) else tuple(b for b in bounds if not b.always)

    def _within(self, change: Change) -> Guard:
        """Returns the bound that a column is inside its row, if strips may reach past the end of rows."""
        column = self.schedule.axes.column
        bound = Bound(Affine.of(column).rename(change), 0, column.extent)
        return () if not self.schedule.ragged or bound.always else (bound,)
