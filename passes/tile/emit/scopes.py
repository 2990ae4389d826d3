"""Scopes of a tile program: nested loop bodies, with constants at the start, and where in them values are emitted.

Each value is emitted once, in the outermost loop body where all that it depends on is known.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch_mlir import ir
from torch_mlir.dialects import arith, scf, vector

from lamina.core.dtypes import HALF
from lamina.core.sizes import Size, SizeLike

from ...ir.affine import Affine, Axis
from ...ir.expressions import Expr
from ...ir.sizes import number_attribute
from ...space.coalesce import Merged
from ..arguments import KernelSizes
from .values import block_shape, broadcast, converted, element, filled, typed


@dataclass
class Scope:
    """One loop body.

    block   that its values are emitted into
    memo    values emitted so far
    anchor  the nested loop in front of which late values of this scope are emitted
    mask    of the lanes that count; None: all
    once    memos of loops of one iteration, which stand in the same block: a second loop over the same iteration finds its values
    """

    block: ir.Block
    memo: dict[Any, ir.Value] = field(default_factory=dict)
    anchor: ir.Operation | None = None
    mask: ir.Value | None = None
    once: dict[Any, dict[Any, ir.Value]] = field(default_factory=dict)


class Side(NamedTuple):
    """One dimension of the blocks that are computed.

    axis  that it runs along; None if it has a single element
    size  neighbors in a block
    step  elements from a block to the next: `size`, or more where blocks are computed in parts
    """

    axis: Axis | None
    size: int
    step: int

    @property
    def extent(self) -> SizeLike:
        """The extent of its axis, 1 for None."""
        return 1 if self.axis is None else self.axis.extent

    @property
    def cut(self) -> bool:
        """Whether the last block reaches past the end of the axis."""
        return self.extent % self.step != 0


@dataclass(frozen=True)
class AxisPart:
    """A part of an axis, which a loop covers: its elements from `first` + `low` up to `first` + `high`.

    first  where the program's part begins
    exact  `high` as a size, where it is one and `low` is 0 or the start of a block
    """

    axis: Axis
    first: ir.Value
    low: ir.Value
    high: ir.Value
    exact: SizeLike | None = None


Body = Callable[[list[ir.Value]], list[ir.Value]]
"""Emits the body of a loop: takes the carried values, and returns these for the next iteration."""


class Scopes:
    """The open scopes, the innermost last, and the axes that loops have bound.

    sides  dimensions of the blocks that are computed now
    lanes  elements of a block of rank 1
    """

    def __init__(self, entry: ir.Block, merged: Merged, lanes: int, sizes: KernelSizes) -> None:
        self.entry, self.sizes = entry, sizes
        self.stack = [Scope(entry)]
        self.merged, self.lanes = merged, lanes
        self.sides: tuple[Side, ...] = ()
        self.bound: dict[Axis, tuple[int, ir.Value]] = {}  # axis -> depth, value
        self._depths: dict[Any, int] = {}

    @property
    def vector(self) -> Axis | None:
        """The axis that blocks of rank 1 run along; None for scalar code."""
        return self.sides[0].axis if self.sides else None

    @vector.setter
    def vector(self, axis: Axis | None) -> None:
        """Makes blocks run along an axis."""
        self.sides = () if axis is None else (Side(axis, self.lanes, self.lanes),)

    @contextmanager
    def narrower(self, lanes: int) -> Iterator[None]:
        """Makes blocks of rank 1 of so many lanes while open."""
        before, vector = self.lanes, self.vector
        self.lanes, self.vector = lanes, vector
        yield
        self.lanes, self.vector = before, vector

    @contextmanager
    def scope(
        self,
        block: ir.Block,
        anchor: ir.Operation | None = None,
        mask: ir.Value | None = None,
        memo: dict[Any, ir.Value] | None = None,
    ) -> Iterator[None]:
        """Opens a loop body. anchor: its loop, in front of which the scope around emits meanwhile; memo: values already known."""
        self.stack[-1].anchor = anchor
        self.stack.append(Scope(block, {} if memo is None else memo, mask=mask))
        self._depths = {}
        yield
        self.stack.pop()
        self.stack[-1].anchor = None
        self._depths = {}
        self.bound = {a: (d, v) for a, (d, v) in self.bound.items() if d < len(self.stack)}

    def point(self, depth: int = -1) -> ir.InsertionPoint:
        """Returns where values of the scope at `depth` are emitted: at its end, or in front of the loop that is open in its
        block."""
        depth %= len(self.stack)
        while self.stack[depth].anchor is None and depth + 1 < len(self.stack):
            depth += 1  # a scope of one iteration shares its parent's block
        scope = self.stack[depth]
        return ir.InsertionPoint(scope.anchor) if scope.anchor is not None else ir.InsertionPoint(scope.block)

    def bind(self, axis: Axis, value: ir.Value) -> None:
        """Gives an axis its value in the innermost scope."""
        self.bound = {**self.bound, axis: (len(self.stack) - 1, value)}
        self._depths = {}

    @contextmanager
    def anew(self) -> Iterator[None]:
        """Binds all axes in the innermost scope while open, so that what depends on them is emitted again in it."""
        bound = self.bound
        for axis, (_, value) in list(bound.items()):
            self.bind(axis, value)
        yield
        self.bound = bound

    def start(self, axis: Axis | None) -> ir.Value:
        """Returns the value of an axis: for that of a side, of the block's first element. 0 for None."""
        return self.number(0) if axis is None else self.bound[axis][1]

    def memoized(self, key: Any, depth: int, make: Callable[[], ir.Value]) -> ir.Value:
        """Returns the value known as `key` in the scope at `depth`, made by `make` on first use."""
        memo = self.stack[depth].memo
        if key not in memo:
            with self.point(depth):
                memo[key] = make()
        return memo[key]

    def hoisted(self, make: Callable[[], ir.Value], *values: ir.Value) -> ir.Value:
        """Returns a value that is made of others: in front of all loops where these stand there."""
        blocks = [v.owner if isinstance(v.owner, ir.Block) else v.owner.operation.block for v in values]
        with self.point(0 if all(block == self.entry for block in blocks) else -1):
            return make()

    def loop(
        self, low: ir.Value, high: ir.Value, step: int | ir.Value, inits: Sequence[ir.Value],
        body: Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]], attribute: str = "",
    ) -> list[ir.Value]:  # fmt: skip
        """Emits an scf.for. body: takes the iteration and the carried values, and returns these for the next; attribute: a mark."""
        with self.point():
            loop = scf.ForOp(low, high, self.number(step) if isinstance(step, int) else step, inits)
        if attribute:
            loop.operation.attributes[attribute] = ir.UnitAttr.get()
        with self.scope(loop.body, anchor=loop.operation), ir.InsertionPoint(loop.body):
            scf.YieldOp(body(loop.induction_variable, list(loop.inner_iter_args)))
        return list(loop.results)

    def branch(self, condition: ir.Value, yes: Callable[[], object], no: Callable[[], object]) -> None:
        """Emits an scf.if without results, with what `yes` and `no` emit in its blocks."""
        with self.point():
            branch = scf.IfOp(condition, has_else=True)
        for block, body in ((branch.then_block, yes), (branch.else_block, no)):
            with self.scope(block, anchor=branch.operation), ir.InsertionPoint(block):
                body()
                scf.YieldOp([])

    def when(self, condition: ir.Value, inits: list[ir.Value], body: Body) -> list[ir.Value]:
        """Emits an scf.if around `body`; returns its results, or `inits` where the condition does not hold."""
        with self.point():
            branch = scf.IfOp(condition, [v.type for v in inits], has_else=bool(inits))
        with self.scope(branch.then_block, anchor=branch.operation), ir.InsertionPoint(branch.then_block):
            scf.YieldOp(body(inits))
        if inits:
            with ir.InsertionPoint(branch.else_block):
                scf.YieldOp(inits)
        return list(branch.results)

    def part(self, axis: Axis, first: ir.Value, count: ir.Value, exact: SizeLike | None = None) -> AxisPart:
        """Returns the part of `count` elements of an axis from `first` on. exact: the count, where it is a size."""
        return AxisPart(axis, first, self.number(0), count, exact)

    def digits(self, number: ir.Value, extents: Sequence[SizeLike]) -> Iterator[ir.Value]:
        """Yields the position along each of `extents`, the fastest and last one first, that a number counts to."""
        for n in reversed(extents[1:]):
            at = arith.remui(number, self.number(n))
            number = arith.divui(number, self.number(n))
            yield at
        yield number

    # -- what varies along the blocks

    def axes(self, e: Expr) -> set[Axis]:
        """Returns the merged axes that `e` varies along."""
        return self.merged.merged(e.free)

    def is_block(self, e: Expr) -> bool:
        """Returns whether `e` varies along a side."""
        own = self.axes(e)
        return any(side.axis in own for side in self.sides)

    def varies(self, index: Affine) -> bool:
        """Returns whether an index varies along the blocks."""
        index = self.merged.index(index)
        return any(index.coefficient(side.axis) for side in self.sides) or any(
            not isinstance(t, Axis) and self.is_block(t) for t, _ in index.terms
        )

    def shape(self, e: Expr) -> tuple[int, ...]:
        """Returns the shape of the values of `e`: () for a scalar. Blocks of several sides have size 1 along those that `e` does
        not vary along, and are never scalars."""
        if len(self.sides) < 2:
            return (self.lanes,) if self.is_block(e) else ()
        own = self.axes(e)
        return tuple(side.size if side.axis in own else 1 for side in self.sides)

    # -- constants

    def constant(self, value: Any, type_: ir.Type) -> ir.Value:
        """Returns a scalar constant, or a symbolic size, at the start of the program."""
        if isinstance(value, Size):
            return self.memoized((repr(value), str(type_)), 0, lambda: converted(self.sizes.value(value), type_))
        return self.memoized((repr(value), str(type_)), 0, lambda: arith.constant(type_, number_attribute(value, type_)))

    def number(self, n: SizeLike) -> ir.Value:
        """Returns a number or a symbolic size as an index."""
        return self.constant(n, ir.IndexType.get())

    def splat(self, value: Any, type_: ir.Type, shape: tuple[int, ...] | None = None) -> ir.Value:
        """Returns a constant block with `value` in all lanes, of rank 1 unless `shape` is given."""
        whole = shape or (self.lanes,)
        if isinstance(value, Size):
            return self.memoized(
                ("splat", repr(value), str(type_), whole), 0, lambda: broadcast(self.constant(value, type_), whole)
            )
        return self.memoized(("splat", repr(value), str(type_), whole), 0, lambda: filled(whole, value, type_))

    def true(self, wide: bool) -> ir.Value:
        """Returns a constant i1 that holds, in all lanes when `wide`."""
        i1 = ir.IntegerType.get_signless(1)
        return self.splat(1, i1) if wide else self.constant(1, i1)

    def mask_before(self, count: ir.Value) -> ir.Value:
        """Returns the mask of the first `count` lanes."""
        return vector.create_mask(ir.VectorType.get([self.lanes], ir.IntegerType.get_signless(1)), [count])

    def widen(self, v: ir.Value) -> ir.Value:
        """Broadcasts a scalar to all lanes; a block stays as it is."""
        return broadcast(v, block_shape(v) or (self.lanes,))

    # -- values as memory holds them

    def from_memory(self, v: ir.Value, dtype: str) -> ir.Value:
        """Converts a loaded value to the type it is computed in: f16 and bf16 to f32, bytes to i1."""
        if dtype in HALF:
            return arith.extf(typed(block_shape(v), ir.F32Type.get()), v)
        if dtype == "i1":
            byte, shape = ir.IntegerType.get_signless(8), block_shape(v)
            return arith.cmpi(arith.CmpIPredicate.ne, v, self.splat(0, byte, shape) if shape else self.constant(0, byte))
        return v

    def to_memory(self, v: ir.Value, dtype: str) -> ir.Value:
        """Converts a value to the type that memory holds: f32 to f16 or bf16, i1 to bytes."""
        if dtype in HALF:
            return arith.truncf(typed(block_shape(v), element(dtype)), v)
        return arith.extui(typed(block_shape(v), element("i8")), v) if dtype == "i1" else v
