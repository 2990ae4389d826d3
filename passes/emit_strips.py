"""The program of a strip: sums over windows of neighbouring columns, which read each pixel of a row of the window once.

A strip's sums are in registers. For each row of the window the program reads pixels and weights, and adds every product of them
that belongs to a sum. Rows of large windows are a loop, which leaves out those outside of the image; small windows are written out,
for strips of several rows, and what is outside of the image is 0, as columns are.
"""

from functools import partial
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith, math, scf

from .affine import Affine, Axis
from .emit_tile import Blocks, Memory
from .expressions import Apply, Bound, Const, Expr, Guard, InBounds, Interner, Load, Reduce
from .space import Space
from .strips import Strips

Change = dict[Axis, Affine]
Place = tuple[int, int]  # row and column of a strip


class StripBlocks(Blocks):
    """Blocks whose bounds and the constants of whose indices are known before the loop."""

    def index(self, at: Affine) -> ir.Value:
        first = super().index(Affine(0, at.terms))
        if not at.constant:
            return first
        flags = ir.Attribute.parse("#arith.overflow<nsw>")
        depth = max((self.bound[t][0] for t, _ in at.terms), default=0)
        return self.memoised(("moved", at), depth, lambda: arith.addi(first, self.number(at.constant), overflow_flags=flags))

    def _condition(self, guard: Guard, wide: bool) -> ir.Value:
        """Only the bound that can fail is looked at."""
        one = self.memoised(("inside", guard[0]), 0, partial(self._inside, guard[0]))
        if len(guard) > 1:
            rest = self._condition(guard[1:], False)
            one = self.memoised(("inside", guard), 0, lambda: arith.andi(one, rest))
        return self.widen(one) if wide else one

    def _inside(self, b: Bound) -> ir.Value:
        (low, high), at = b.at.bounds(), self.index(b.at)
        checks = []
        if low < b.low:
            checks.append(arith.cmpi(arith.CmpIPredicate.sge, at, self.number(b.low)))
        if high >= b.high:
            checks.append(arith.cmpi(arith.CmpIPredicate.slt, at, self.number(b.high)))
        return checks[0] if len(checks) == 1 else arith.andi(*checks)


class StripProgram:
    """Emits the body of one kernel. results: with the flat memref each is stored to."""

    def __init__(self, entry: ir.Block, space: Space, plan: Strips, memory: dict[Any, Memory], results: list[ir.Value]) -> None:
        self.plan = plan
        self.b = StripBlocks(entry, memory, plan.merged, plan.config.lanes, 0)
        self.results = list(zip(space.results, results, strict=True))
        self.make = Interner()
        self.pixel_first = plan.column in plan.product.arg.args[0].free

    def emit(self, program: ir.Value) -> None:
        self._place(program)
        sums = self._sums()
        for place, total in sums.items():
            change = self._place_of(*place)
            self.b.stack[-1].memo[self._at(self.plan.product, change)] = total
            for r, flat in self.results:
                self.b.store(self._at(r.expr, change), flat, r.dtype, r.at.rename(change))

    def _place(self, program: ir.Value) -> None:
        """Binds the axes to this program's place: neighbours have neighbouring channels, up to some, then strips, then rows."""
        b, p, rest = self.b, self.plan, program
        places = []
        for n in (p.inner, p.strips.extent, p.bands.extent, p.outer):
            places.append(arith.remui(rest, b.number(n)) if n > 1 else b.number(0))
            rest = arith.divui(rest, b.number(n)) if n > 1 else rest
        inner, strip, band, outer = places
        block = inner if p.outer == 1 else arith.addi(arith.muli(outer, b.number(p.inner)), inner)
        for axis, value in ((p.strips, strip), (p.bands, band), (p.batch, rest)):
            b.bind(axis, value)
        b.bind(p.channel, arith.muli(block, b.number(p.config.lanes)))
        b.vector = p.channel

    def _place_of(self, i: int, j: int) -> Change:
        """Row i and column j of the strip."""
        p = self.plan
        return {p.row: Affine.of(p.bands, p.height) + i, p.column: Affine.of(p.strips, p.length) + j}

    def _sums(self) -> dict[Place, ir.Value]:
        b, p = self.b, self.plan
        zero = b.splat(0.0, ir.F32Type.get())
        sums = {(i, j): zero for i in range(p.height) for j in range(p.length)}
        if p.unrolled:
            return self._added(sums, [{p.down: Affine(k)} for k in range(p.down.extent)])
        low, high = self._rows()
        with b.point():
            loop = scf.ForOp(low, high, b.number(1), list(sums.values()))
        with b.scope(loop.body, anchor=loop.operation):
            b.bind(p.down, loop.induction_variable)
            inside = self._added(dict(zip(sums, loop.inner_iter_args, strict=True)), [{}])
            with ir.InsertionPoint(loop.body):
                scf.YieldOp(list(inside.values()))
        return dict(zip(sums, loop.results, strict=True))

    def _rows(self) -> tuple[ir.Value, ir.Value]:
        """The first row of the window that is in the image, and the one after the last."""
        b, p = self.b, self.plan
        first, last = b.number(0), b.number(p.down.extent)
        if p.inside is None:
            return first, last
        top = (p.inside.at + Affine.of(p.down, -1)).rename(self._place_of(0, 0))  # the image's row that the window begins with
        if top.bounds()[0] < p.inside.low:
            first = arith.maxsi(first, arith.subi(b.number(p.inside.low), b.index(top)))
        if top.bounds()[1] + p.down.extent > p.inside.high:
            last = arith.minsi(last, arith.subi(b.number(p.inside.high), b.index(top)))
        return first, last

    def _added(self, sums: dict[Place, ir.Value], rows: list[Change]) -> dict[Place, ir.Value]:
        """The sums with rows of the window added, one pixel after the other: each is read and converted once for all its sums."""
        p = self.plan
        pixels: dict[Place, Expr] = {}
        uses: dict[Place, list[tuple[Place, Expr]]] = {}  # pixel -> sums that it is a part of, with its weight
        weights: dict[Place, Expr] = {}
        for i in range(p.height):
            for n, row in enumerate(rows):
                for j in range(p.length):
                    for k in range(p.across.extent):
                        at = (i * p.steps[0] + n, j * p.steps[1] + k)
                        if at not in pixels or (n, k) not in weights:
                            here = {**self._place_of(i, j), **row, p.across: Affine(k)}
                            pixels[at], weights[n, k] = self._factors(here)
                        uses.setdefault(at, []).append(((i, j), weights[n, k]))
        out = dict(sums)
        for at, pixel in pixels.items():
            if isinstance(pixel, Const) and pixel.value == 0:
                continue
            for place, weight in uses[at]:
                x, w = self.b.block(pixel), self.b.block(weight)
                with self.b.point():
                    out[place] = math.fma(x, w, out[place])
        return out

    def _factors(self, here: Change) -> tuple[Expr, Expr]:
        """The pixel and the weight of a product."""
        product = self.plan.product.arg
        assert isinstance(product, Apply)
        one, two = (self._at(x, here) for x in product.operands)
        return (one, two) if self.pixel_first else (two, one)

    # -- expressions at a column of the strip and of the window

    def _at(self, e: Expr, change: Change) -> Expr:
        """`e` where `change` says what axes are."""
        make = self.make
        match e:
            case Load():
                guard = self._guard(e.guard, change)
                return make.const(0, e.dtype) if guard is None else make.load(e.tensor, e.at.rename(change), guard, e.dtype)
            case InBounds():
                guard = self._guard(e.guard, change)
                return make.const(False, "i1") if guard is None else make.in_bounds(guard)
            case Apply():
                return make.apply(e.op, tuple(self._at(a, change) for a in e.operands), e.predicate, e.dtype)
            case Reduce():
                return make.reduce(e.op, self._at(e.arg, change), e.axes)
            case Const():
                return make.const(e.value, e.dtype)
        raise AssertionError(f"{type(e).__name__} in a strip")

    def _guard(self, guard: Guard, change: Change) -> Guard | None:
        """The bounds that may fail; None where one always does. The loop over the window's rows keeps those of rows."""
        p = self.plan
        bounds = [Bound(b.at.rename(change), b.low, b.high) for b in guard if p.unrolled or not b.at.coefficient(p.down)]
        return None if any(b.never for b in bounds) else tuple(b for b in bounds if not b.always)
