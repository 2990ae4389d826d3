"""Emits scalar expressions as the values of a tile program: scalars, blocks of neighbors along one axis, and tiles along several.

Scopes.sides says which axes blocks run along; a value has a dimension for each. See scopes.py for where a value is emitted,
access.py for how memory is read and written.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, vector

from lamina.core.sizes import Size, typical

from ...ir.affine import Affine, Axis, Range
from ...ir.expressions import Apply, Const, Expr, InBounds, Load, Position, Reduce, Scan, Scatter
from ...ir.guards import Guard
from ...ir.sizes import i64
from ...space.coalesce import Merged
from ...trace.stored import Pair
from ..arguments import KernelSizes
from . import access, bounds
from .scopes import Scopes
from .values import block_shape, broadcast, common_shape, element, filled, typed

Memory = tuple[ir.Value, str]  # memref, flat except for tiles, and the tensor's element type ("i1" lives in i8)
Memories = dict[Any, Memory]  # of the tensors that a kernel reads


@dataclass(frozen=True)
class Frame:
    """The tile function that a program is emitted into.

    entry        its block
    memory       of the tensors that the kernel reads
    results      the memory that each result is stored to
    sizes        the symbolic sizes that it computes with
    overwritten  tensors over which a result may be stored, each with the memory of that result
    """

    entry: ir.Block
    memory: Memories
    results: list[ir.Value]
    sizes: KernelSizes
    overwritten: Sequence[tuple[ir.Value, ir.Value]] = ()


class Blocks(Scopes):
    """Emits expressions into the innermost open scope."""

    def __init__(self, frame: Frame, merged: Merged, lanes: int, streams: int = 0) -> None:
        super().__init__(frame.entry, merged, lanes, frame.sizes)
        self.memory = frame.memory
        self.stream_bytes = streams  # results from this size on bypass the caches; 0: none do
        self.cached = {memory for _, memory in frame.overwritten}  # results that never do: what they overwrite has been read
        self.kept: dict[Expr, tuple[ir.Value, Affine]] = {}  # values of a row in scratch memory: where, and at which index
        self.saving: dict[Expr, tuple[ir.Value, Affine]] = {}
        self.ahead: dict[Load, int] = {}  # loads to prefetch, and how many elements ahead
        self.pairs = False  # whether every second element is loaded as part of a block of pairs
        self.runs = True  # whether lanes of a flattened axis are read and written run by run
        self.edge_loops = False  # see BlockConfig; lane masks are ranges then, and loops tell the values of their axes
        self.ranges: dict[Axis, Range] = {}  # values of axes whose loops run over a part of them
        self.window: access.ShiftedBlocks | None = None  # of the loop over rows that start in the middle of an access
        self.decided: dict[Expr, Expr] = {}  # selects that a branch has decided, and the operand chosen
        self.known: Guard = ()  # what holds in the branch
        self.transposed: dict[Load, tuple[ir.Value, ir.Value]] = {}  # loads through a transpose tile: its memory, and the row

    # -- where a value belongs

    def depth(self, e: Expr) -> int:
        """Returns the scope that `e` is emitted in. Operands are found first, on a list, so that chains of any length take no
        stack."""
        if (known := self._depths.get(e)) is not None:
            return known
        stack = [e]
        while stack:
            top = stack[-1]
            if top not in self._depths:
                found = self._known_at(top)
                if found is None and (waiting := [a for a in top.args if a not in self._depths]):
                    stack += waiting
                    continue
                self._depths[top] = self._depth(top) if found is None else found
            stack.pop()
        return self._depths[e]

    def _known_at(self, e: Expr) -> int | None:
        """Returns the scope of a value that need not be computed: the innermost one for a value kept in scratch memory, which is
        read there; that of a reduction's or scan's loop for its result. None if the value has to be computed."""
        if e in self.kept:
            return len(self.stack) - 1
        if not isinstance(e, Reduce | Scan):
            return None
        return next((d for d in range(len(self.stack) - 1, -1, -1) if e in self.stack[d].memo), None)

    def _depth(self, e: Expr) -> int:
        return max([self.bound[a][0] for a in self.axes(e)] + [self._depths[a] for a in e.args], default=0)

    # -- indices

    def index(self, index: Affine) -> ir.Value:
        """Returns the scalar value of an index; for the vector axis, that of the block's first lane. Terms known in outer scopes
        are added there."""
        index = self.merged.index(index)
        self.sizes.reach(index)
        terms = []
        for t, c in index.terms:
            if isinstance(t, Axis):
                terms.append((self.bound[t][0], c, t, self.bound[t][1]))
            elif not self.is_block(t):
                terms.append((self.depth(t), c, t, self.value(t)))
        terms.sort(key=lambda x: (x[0], -typical(x[1])))
        out, sum_, depth = self.number(index.constant), Affine(index.constant), 0
        for d, c, t, v in terms:
            depth, sum_ = max(depth, d), sum_ + Affine(0, ((t, c),))
            scaled = v if c == 1 else self.memoized(("*", t, c), d, partial(arith.muli, v, self.number(c)))
            if sum_.constant == 0 and len(sum_.terms) == 1:
                out = scaled
            else:
                out = self.memoized(("at", sum_), depth, partial(arith.addi, out, scaled))
        return out

    def lane_index(self, index: Affine) -> ir.Value:
        """Returns the index of every lane, as a vector."""
        index = self.merged.index(index)
        type_ = ir.VectorType.get([self.lanes], ir.IndexType.get())
        out = vector.broadcast(type_, self.index(index))
        assert self.vector is not None
        c = index.coefficient(self.vector)
        if c:
            step = self.memoized(("step", self.lanes), 0, lambda: vector.step(type_))
            if c != 1:
                step = arith.muli(step, self.splat(c, ir.IndexType.get()))
            out = arith.addi(out, step)
        for t, k in index.terms:
            if not isinstance(t, Axis) and self.is_block(t):
                out = arith.addi(out, arith.muli(self.value(t), self.splat(k, ir.IndexType.get())))
        return out

    # -- values

    def value(self, e: Expr) -> ir.Value:
        """Returns the value of `e`, emitting it on first use: operands first, on a list, so that chains of any length take no
        stack."""
        stack = [e]
        while stack:
            top = stack[-1]
            memo = self.stack[self.depth(top)].memo
            if top not in memo:
                args = () if top in self.kept else (self.decided[top],) if top in self.decided else top.args
                waiting = [a for a in reversed(args) if a not in self.stack[self.depth(a)].memo]
                if waiting:
                    stack += waiting
                    continue
                self._make(top, memo)
            stack.pop()
        return self.stack[self.depth(e)].memo[e]

    def _make(self, e: Expr, memo: dict[Any, ir.Value]) -> None:
        if e in self.kept:
            memo[e] = self._read_kept(e)
        elif e in self.decided:
            memo[e] = self.block(self.decided[e]) if self.is_block(e) else self.value(self.decided[e])
        else:
            with self.point(self.depth(e)):
                memo[e] = self._emit(e)
        if e in self.saving:
            self._save(e, memo[e])

    def block(self, e: Expr, shape: tuple[int, ...] | None = None) -> ir.Value:
        """Returns the value of `e` as a block of `shape`, that of all sides unless it is given; () asks for a scalar."""
        shape = tuple(side.size for side in self.sides) or (self.lanes,) if shape is None else shape
        if isinstance(e, Const) and len(shape) == 1:
            return self.splat(e.value, element(e.dtype))
        value = self.value(e)
        if block_shape(value) == shape:
            return value
        return self.memoized(("widened", e, shape), self.depth(e), lambda: broadcast(value, shape))

    def masked(self, e: Expr, filler: float) -> ir.Value:
        """Returns the value of `e` as a block, with `filler` in the lanes that do not count."""
        value, mask = self.block(e), self.stack[-1].mask
        if mask is None:
            return value
        with self.point():
            return arith.select(mask, value, self.splat(filler, element(e.dtype)))

    def _emit(self, e: Expr) -> ir.Value:
        match e:
            case Const() if isinstance(e.value, Size):
                return self.constant(e.value, element(e.dtype))
            case Const():
                return filled(self.shape(e), e.value, element(e.dtype))
            case Position():
                return self._position(e)
            case InBounds():
                bounds.check(self, e, self.is_block(e))
                return self.condition(e.guard, self.is_block(e))
            case Load():
                return access.load(self, e)
            case Apply():
                return self._apply(e)
        raise AssertionError(f"{type(e).__name__} outside of its loop")

    def _position(self, e: Position) -> ir.Value:
        wide = self.is_block(e)
        at = self.lane_index(e.index) if wide else self.index(e.index)
        return at if e.dtype == "index" else arith.index_cast(typed(block_shape(at), element(e.dtype)), at)

    def _apply(self, e: Apply) -> ir.Value:
        shape, type_ = self.shape(e), element(e.dtype)
        if len(shape) > 1:
            shape = common_shape(map(self.value, e.operands))  # a product has all of its block's lanes along an axis of one element
        operands = [self.block(a, shape) for a in e.operands]
        if e.op == "arith.select" and not self.shape(e.operands[0]):
            operands[0] = self.value(e.operands[0])
        attributes = {} if e.predicate is None else {"predicate": i64(e.predicate)}
        return ir.Operation.create(e.op, results=[typed(shape, type_)], operands=operands, attributes=attributes).results[0]

    def condition(self, guard: Guard, wide: bool) -> ir.Value:
        """Emits whether every bound holds (per lane when `wide`)."""
        return bounds.condition(self, guard, wide)

    def store(self, e: Expr, memory: ir.Value, dtype: str, index: Affine, paired: bool = False) -> None:
        """Stores `e` to memory at `index`, in the innermost scope.

        dtype   the result's element type
        paired  whether the index counts pairs
        """
        if isinstance(e, Scatter):
            every = self.vector is not None and e.combine  # of lanes that are the same, each one counts
            value = self.block(e.value) if every or self.is_block(e) else self.value(e.value)
            with self.point():
                access.scatter(self, self.to_memory(value, dtype), memory, e)
            return
        if isinstance(e, Pair) and paired and self.sides and access.is_contiguous(self, self.merged.index(index)):
            values = [self.block(part) for part in (e.first, e.second)]
            with self.point():
                access.store_pair(self, [self.to_memory(value, dtype) for value in values], memory, index)
            return
        if isinstance(e, Pair):
            for part, step in ((e.first, 0), (e.second, e.step)):
                self.store(part, memory, dtype, (index * 2 if paired else index) + step)
            return
        along = any(self.merged.index(index).coefficient(side.axis) for side in self.sides)
        value = self.block(e) if along or len(self.sides) > 1 else self.value(e)
        with self.point():
            access.store(self, self.to_memory(value, dtype), memory, index)

    # -- values of a row kept between loops

    def _save(self, e: Expr, value: ir.Value) -> None:
        flat, at = self.saving.pop(e)
        with self.point():
            access.save_block(self, self.to_memory(self.widen(value), e.dtype), flat, self.merged.index(at))

    def _read_kept(self, e: Expr) -> ir.Value:
        flat, at = self.kept[e]
        with self.point():
            if not self.is_block(e):
                return self.from_memory(memref.load(flat, [self.index(at)]), e.dtype)
            return self.from_memory(access.saved_block(self, flat, self.merged.index(at)), e.dtype)
