"""Emits the loops of a tile program: over rows, one nest over columns per level of reductions, and one for full results."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith

from lamina.core.sizes import at_most, typical
from lamina.core.walks import reachable

from ..ir.affine import Affine, Axis
from ..ir.expressions import Expr, Load, Reduce, Scan, walk
from ..lower.simt.control import ORDERED, SHARED
from ..space.nests import Nest, nests_of
from ..space.schedule import Schedule
from ..space.space import Result, Space
from . import online
from .accumulators import Accumulators
from .cascades import CascadeCut, cascade, find_cascade
from .covering import blocks_along, each_region
from .emit import kept, parts, unaligned_rows
from .emit.blocks import Blocks, Frame
from .emit.bounds import ending_at_bounds
from .emit.scopes import AxisPart, Body
from .prefetch import next_row, streamed_inputs
from .row_blocks import blocked_axis, emit_blocks

_Powers = tuple[ir.Value, dict[Any, ir.Value]]
"""The exponentials of a block, and the memo of the scope that holds them."""
_Slot = tuple[ir.Value, Affine]
"""Memory that keeps a value for a later nest, and where in it."""


class Loops:
    """Emits the body of one kernel."""

    def __init__(self, frame: Frame, space: Space, schedule: Schedule) -> None:
        self.space, self.schedule = space, schedule
        self.b = Blocks(frame, schedule.merged, schedule.config.lanes, schedule.config.streams)
        self.b.edge_loops, self.b.pairs, self.b.runs = schedule.config.edge_loops, schedule.config.pairs, schedule.config.runs
        self.results = list(zip(space.results, frame.results, strict=True))
        self.nests = nests_of(space, schedule.merged.columns, self.results, schedule.config.online and schedule.column_vector)
        self.sums = Accumulators(self.b, schedule)
        self.keep = kept.allocate_slots(self.b, schedule, self.nests)
        self.overwritten = {tensor for tensor, _ in frame.overwritten} if len(self.results) > 1 else set()

    def emit(self, program: ir.Value) -> None:
        """Emits the program whose number in the grid is `program`."""
        b, schedule = self.b, self.schedule
        chunks = self._place(program)
        if not self.space.columns and schedule.crossed is None:
            b.ahead = streamed_inputs(b, schedule, self.space)
        self.body(chunks)

    def body(self, chunks: dict[Axis, tuple[ir.Value, ir.Value]]) -> None:
        """Emits the rows of a program. chunks: the first iteration and the count of each axis that it takes a part of."""
        schedule, inner = self.schedule, list(self.schedule.inner)
        if schedule.chunked is not None and schedule.chunked not in inner:
            inner.insert(0, schedule.chunked)
        self.row_axes = [*(a for a, _ in schedule.grouped), *inner]
        self.blocked = blocked_axis(self)
        rows = partial(self._rows, self.row_axes, chunks)
        if (held := kept.emit_fit(self.b, schedule, self.keep)) is None:
            rows()
        else:
            self.b.branch(held, rows, partial(self._without_keeping, rows))

    def _without_keeping(self, rows: Callable[[], object]) -> None:
        """Emits rows of which no values are kept for later nests."""
        keep, self.keep = self.keep, {}
        rows()
        self.keep = keep

    def _place(self, program: ir.Value) -> dict[Axis, tuple[ir.Value, ir.Value]]:
        """Binds the grid's axes to this program; returns the first iteration and the count of each chunked axis."""
        b, chunks = self.b, {}
        axes = self.schedule.grid_axes
        with b.point(0):
            places = b.digits(program, [-(-a.extent // chunk) for a, chunk in axes])
            for (a, chunk), position in zip(reversed(axes), places, strict=False):
                if a not in self.schedule.outer:
                    first = arith.muli(position, b.number(chunk))
                    left = arith.subi(b.number(a.extent), first)
                    chunks[a] = first, arith.minui(left, b.number(chunk)) if a.extent % chunk else b.number(chunk)
                else:
                    b.bind(a, position)
        return chunks

    def _rows(self, axes: list[Axis], chunks: dict[Axis, tuple[ir.Value, ir.Value]]) -> list[ir.Value]:
        """Emits the rows along `axes`, the outermost first: all of them, or a program's chunk of an axis."""
        if not axes:
            self.row()
            return []
        axis, rest = axes[0], axes[1:]
        if axis in chunks:
            (first, count), chunk = chunks[axis], dict(self.schedule.grid_axes)[axis]
            exact = chunk if axis.extent % chunk == 0 else None
        else:
            first, count, exact = self.b.number(0), self.b.number(axis.extent), axis.extent
        if axis is self.blocked:
            emit_blocks(self, axis, first, count, exact if isinstance(exact, int) else None)
            return []
        return self._over(self.b.part(axis, first, count, exact), [], lambda _: self._rows(rest, chunks))

    def _over(self, part: AxisPart, inits: list[ir.Value], body: Body) -> list[ir.Value]:
        """Runs `body` over a part of an axis, by blocks when it is the vector axis."""
        axis = part.axis
        if axis is self.schedule.vector or (self.schedule.column_vector and axis is self.b.vector):
            self.b.vector = axis
            return blocks_along(self, part, inits, body)
        if axis is self.schedule.divided:
            return each_region(self, axis, inits, body)
        return self.loop(part, 1, None, inits, body, single=part.exact == 1)

    def loop(
        self, part: AxisPart, step: int, tail: int | ir.Value | None, inits: list[ir.Value], body: Body, single: bool = False,
        attribute: str = "",
    ) -> list[ir.Value]:  # fmt: skip
        """Emits one loop over a part of an axis; returns the carried values.

        step       elements from an iteration to the next
        tail       lanes of a masked block: their number, or the end that they are counted to; None where all lanes count
        single     there is one iteration, which needs no scf.for
        attribute  marks the loop
        """
        b, axis, first = self.b, part.axis, part.first
        if single:
            memo = b.stack[-1].once.setdefault((axis, first, part.low, tail), {})
            with b.scope(b.stack[-1].block, memo=memo):
                self.enter(axis, first, part.low, tail)
                return body(inits)

        def inside(position: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            """Binds the axis and emits the body."""
            self.enter(axis, first, position, tail)
            return body(carried)

        return b.loop(part.low, part.high, step, inits, inside, attribute)

    def enter(self, axis: Axis, first: ir.Value, position: ir.Value, tail: int | ir.Value | None) -> None:
        """Binds an axis to `first` + `position` in the innermost scope. tail: as in `loop`."""
        b = self.b
        if b.window is not None:
            unaligned_rows.enter_block(b, b.window, axis, position, tail is not None)
            return
        with b.point():
            if tail is not None:
                left = b.number(tail) if isinstance(tail, int) else tail if position == b.number(0) else arith.subi(tail, position)
                b.stack[-1].mask = b.memoized("mask", -1, lambda: b.mask_before(left))
            else:
                b.stack[-1].mask = None
            b.bind(axis, position if first == b.number(0) else arith.addi(first, position))

    def row(self) -> None:
        """Emits one row: the nests over its columns, then the stores of reduced results."""
        self.reduce()
        self.store_rows()
        self.b.kept = {}

    def reduce(self) -> None:
        """Emits the nests over the columns of a row."""
        for i, nest in enumerate(self.nests):
            self._nest(nest, i)

    def store_rows(self) -> None:
        """Emits the stores of reduced results, and without columns those of all results."""
        last = [(r, flat) for r, flat in self.results if not r.full or not self.space.columns]
        self._read_overwritten(last)
        for r, flat in last:
            store = partial(self.b.store, r.expr, flat, r.dtype, r.offset, r.paired)
            if self.schedule.by_parts:
                parts.store_in_parts(self.b, self.schedule.config.lanes, r.expr, store)
            else:
                store()

    def _read_overwritten(self, results: Sequence[tuple[Result, Any]]) -> None:
        """Emits the loads of what one of several results overwrites and another may be computed from, in front of their stores."""
        if self.overwritten:
            under = reachable([r.expr for r, _ in results], lambda e: () if isinstance(e, Reduce | Scan) else e.args)
            for e in [e for e in under if isinstance(e, Load) and e.tensor in self.overwritten]:
                self.b.value(e)

    def _nest(self, nest: Nest, order: int) -> None:
        """Emits one nest over columns: its loops, and the totals of its reductions. order: its number among the kernel's nests."""
        b, schedule = self.b, self.schedule
        outer_vector = b.vector
        if schedule.column_vector or outer_vector is None:
            b.vector = self._vector_of(nest)
        shared, axes = self._order(nest)
        runs = find_cascade(self, nest, axes, shared)
        with b.point():
            inits = [self.sums.neutral(r, total=runs is not None) for r in nest.carried] + [
                v for _ in nest.online for v in online.start(schedule.config)
            ]
        saving = {e: slot for e, (born, slot) in self.keep.items() if born == order}
        b.ahead = {}
        if order == 1:
            b.ahead = next_row(b, schedule, self.nests[0], nest)
        elif len(self.nests) == 1:
            b.ahead = streamed_inputs(b, schedule, self.space)
        powers: list[_Powers] = []
        sums = self._columns(axes, inits, partial(self._iteration, nest, saving, powers), nest, shared, runs)
        self._totals(nest, order, sums, powers if len(axes) == 1 and at_most(axes[0].extent, schedule.config.lanes) else None)
        b.kept.update(saving)
        b.vector = outer_vector
        b._depths = {}

    def _iteration(
        self, nest: Nest, saving: dict[Expr, _Slot], powers: list[_Powers], accumulators: list[ir.Value]
    ) -> list[ir.Value]:
        """Emits one iteration of a nest: its reductions, scans and stores; returns the new accumulators. The exponentials of online
        softmax are added to `powers`. saving: the expressions that it keeps for later nests, and where."""
        b = self.b
        b.saving = dict(saving)
        out = [self.sums.combine(r, acc) for r, acc in zip(nest.reductions, accumulators, strict=False)]
        for scan, acc in zip(nest.scans, accumulators[len(nest.reductions) : len(nest.carried)], strict=True):
            here, following = self.sums.step(scan, acc)
            b.stack[-1].memo[scan] = self.sums.narrow(scan, here)
            out.append(following)
        b._depths = {}
        for i, (largest, _) in enumerate(nest.online):
            power, state = online.step(b, largest, accumulators[len(nest.carried) + 2 * i :][:2])
            out += state
            powers.append((power, b.stack[-1].memo))
        self._read_overwritten(nest.results)
        for r, flat in nest.results:
            b.store(r.expr, flat, r.dtype, r.offset, r.paired)
        return out

    def _totals(self, nest: Nest, order: int, sums: list[ir.Value], powers: list[_Powers] | None) -> None:
        """Emits the values of a nest's reductions from its accumulators. powers: the exponentials of online softmax where one block
        held the whole row, so that later nests may use them again."""
        b = self.b
        for r, acc in zip(nest.reductions, sums, strict=False):
            with b.point():
                b.stack[-1].memo[r] = self.sums.total(r, acc)
        for i, pair in enumerate(nest.online):
            with b.point():
                largest, sum_, scale = online.total(sums[len(nest.carried) + 2 * i :][:2])
                b.stack[-1].memo.update(zip(pair, (largest, sum_), strict=True))
                if powers is not None:
                    wanted = list(dict.fromkeys(e for n in self.nests[order + 1 :] for root in n.roots() for e in walk(root)))
                    online.reuse_exponentials(powers[i][0], sum_, scale, pair, wanted, powers[i][1])

    def _order(self, nest: Nest) -> tuple[Axis | None, list[Axis]]:
        """Returns the loop whose iterations teams of threads share, if any, and all loops of a nest, the outermost first."""
        axes = sorted(nest.axes, key=lambda a: a is self.b.vector)
        divides = self.schedule.config.teams > 1 and not nest.scans
        others = [a for a in axes if a is not self.b.vector]
        shared = max(others, key=lambda a: typical(a.extent), default=None) if divides else None
        axes.sort(key=lambda a: a is not shared)  # outermost: every team starts from neutral elements
        return shared, axes

    def _vector_of(self, nest: Nest) -> Axis | None:
        if self.schedule.vector in nest.axes:
            return self.schedule.vector
        return nest.axes[-1] if nest.axes and self.schedule.column_vector else None

    def _columns(
        self, axes: list[Axis], inits: list[ir.Value], body: Body, nest: Nest, shared: Axis | None, runs: CascadeCut | None
    ) -> list[ir.Value]:
        """Emits the loops over `axes`. shared: the one that teams of threads share; runs: the one to cut into runs."""
        if not axes:
            with self.b.scope(self.b.stack[-1].block, mask=self.b.stack[-1].mask):
                return body(inits)
        mask = self.b.stack[-1].mask
        a, rest = axes[0], axes[1:]

        def deeper(accumulators: list[ir.Value]) -> list[ir.Value]:
            """Emits the loops inside this one, or the body."""
            if a is not self.b.vector:
                self.b.stack[-1].mask = mask
            return self._columns(rest, accumulators, body, nest, shared, runs) if rest else body(accumulators)

        if runs is not None and a is runs.axis:
            return cascade(self, runs, nest, inits, deeper)
        zero = self.b.number(0)
        with ending_at_bounds(self.b, nest, a) as (count, exact):
            part = AxisPart(a, zero, zero, count, exact)
            if nest.scans and not rest and a is not self.b.vector and exact != 1:
                return self.loop(part, 1, None, inits, deeper, attribute=ORDERED)
            if a is not shared:
                return self._over(part, inits, deeper)
            taken = self.loop(part, 1, None, inits, deeper, attribute=SHARED)
        return [self._of_all_teams(r, own) for r, own in zip(nest.carried, taken, strict=True)]

    def _of_all_teams(self, r: Reduce | Scan, own: ir.Value) -> ir.Value:
        with self.b.point():
            name = {"combine": ir.StringAttr.get(r.op)}
            return ir.Operation.create("tile.combine", results=[own.type], operands=[own], attributes=name).results[0]
