"""Emits scalar expressions as blocks: the values, loads and stores of a tile program.

See scopes.py for where each value is emitted.
"""

from functools import partial
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, vector

from lamina.core.size import Size, typical

from ...ir.affine import Affine, Axis
from ...ir.expressions import Apply, Const, Expr, InBounds, Load, Position, Reduce, Scan
from ...ir.guards import Guard
from ...space.coalesce import Merged
from ..arguments import KernelSizes
from . import access, bounds
from .scopes import Scopes, attribute, element

DIVISIONS = ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.floordivsi", "arith.ceildivsi")
LINE = 64  # bytes of a cache line
Memory = tuple[ir.Value, str]  # flat memref, element type of the tensor ("i1" lives in i8)


class Blocks(Scopes):
    """Emits expressions into the innermost open scope."""

    def __init__(
        self, entry: ir.Block, memory: dict[Any, Memory], merged: Merged, lanes: int, streams: int, sizes: KernelSizes
    ) -> None:
        super().__init__(entry, merged, lanes, sizes)
        self.memory = memory
        self.stream_bytes = streams  # results from this size on bypass the caches; 0: none do
        self.kept: dict[Expr, tuple[ir.Value, Affine]] = {}  # values of a row in scratch memory: where, and at which index
        self.saving: dict[Expr, tuple[ir.Value, Affine]] = {}
        self.ahead: dict[Load, int] = {}  # loads to prefetch, and how many elements ahead
        self.apart = False  # whether lane masks are ranges, and loops tell the values of their axes
        self.ranges: dict[Axis, bounds.Range] = {}  # values of axes whose loops run over a part of them
        self.window: access.ShiftedBlocks | None = None  # of the loop over rows that start amid an access
        self.decided: dict[Expr, Expr] = {}  # selects that a branch has decided, and the operand chosen
        self.known: Guard = ()  # what holds in the branch
        self.squares: dict[Load, tuple[ir.Value, ir.Value]] = {}  # loads through a transpose tile: its memory, and the row

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
                found = self._reduced_at(top)
                if found is None and (waiting := [a for a in top.args if a not in self._depths]):
                    stack += waiting
                    continue
                self._depths[top] = self._depth(top) if found is None else found
            stack.pop()
        return self._depths[e]

    def _reduced_at(self, e: Expr) -> int | None:
        """Returns the scope that holds the result of a reduction or scan, where its loop has left it; None where none does."""
        if not isinstance(e, Reduce | Scan):
            return None
        return next((d for d in range(len(self.stack) - 1, -1, -1) if e in self.stack[d].memo), None)

    def _depth(self, e: Expr) -> int:
        if e in self.kept:
            return len(self.stack) - 1
        return max([self.bound[a][0] for a in self.axes(e)] + [self._depths[a] for a in e.args], default=0)

    # -- indices

    def index(self, at: Affine) -> ir.Value:
        """Returns the scalar value of an index; for the vector axis, that of the block's first lane. Terms known in outer scopes
        are added there."""
        at = at.rename(self.merged.rename)
        terms = []
        for t, c in at.terms:
            if isinstance(t, Axis):
                terms.append((self.bound[t][0], c, t, self.bound[t][1]))
            elif not self.is_block(t):
                terms.append((self.depth(t), c, t, self.value(t)))
        terms.sort(key=lambda x: (x[0], -typical(x[1])))
        out, sum_, depth = self.number(at.constant), Affine(at.constant), 0
        for d, c, t, v in terms:
            depth, sum_ = max(depth, d), sum_ + Affine(0, ((t, c),))
            scaled = v if c == 1 else self.memoized(("*", t, c), d, partial(arith.muli, v, self.number(c)))
            if sum_.constant == 0 and len(sum_.terms) == 1:
                out = scaled
            else:
                out = self.memoized(("at", sum_), depth, partial(arith.addi, out, scaled))
        return out

    def lane_index(self, at: Affine) -> ir.Value:
        """Returns the index of every lane, as a vector."""
        at = at.rename(self.merged.rename)
        type_ = ir.VectorType.get([self.lanes], ir.IndexType.get())
        out = vector.broadcast(type_, self.index(at))
        assert self.vector is not None
        c = at.coefficient(self.vector)
        if c:
            step = self.memoized("step", 0, lambda: vector.step(type_))
            if c != 1:
                step = arith.muli(step, self.splat(c, ir.IndexType.get()))
            out = arith.addi(out, step)
        for t, k in at.terms:
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

    def block(self, e: Expr) -> ir.Value:
        """Returns the value of `e` as a vector."""
        if isinstance(e, Const):
            return self.splat(e.value, element(e.dtype))
        value = self.value(e)
        if isinstance(value.type, ir.VectorType):
            return value
        return self.memoized(("widened", e), self.depth(e), lambda: self.widen(value))

    def _emit(self, e: Expr) -> ir.Value:
        match e:
            case Const() if isinstance(e.value, Size):
                return self.constant(e.value, element(e.dtype))
            case Const():
                return arith.constant(element(e.dtype), attribute(e.value, element(e.dtype)))
            case Position():
                return self._position(e)
            case InBounds():
                return self._condition(e.guard, self.is_block(e))
            case Load():
                return self._block_load(e) if self.is_block(e) else self._scalar_load(e)
            case Apply():
                return self._apply(e)
        raise AssertionError(f"{type(e).__name__} outside of its loop")

    def _position(self, e: Position) -> ir.Value:
        wide = self.is_block(e)
        at = self.lane_index(e.at) if wide else self.index(e.at)
        if e.dtype == "index":
            return at
        target = element(e.dtype)
        return arith.index_cast(ir.VectorType.get([self.lanes], target) if wide else target, at)

    def _apply(self, e: Apply) -> ir.Value:
        wide = self.is_block(e)
        operands = [self.block(a) if wide else self.value(a) for a in e.operands]
        if e.op == "arith.select" and wide and not self.is_block(e.operands[0]):
            operands[0] = self.value(e.operands[0])
        if e.op in DIVISIONS and not isinstance(e.operands[1], Const):
            zero = self.splat(0, element(e.dtype)) if wide else self.constant(0, element(e.dtype))
            self._report(arith.cmpi(arith.CmpIPredicate.ne, operands[1], zero), wide, "RuntimeError: ZeroDivisionError")
        type_ = element(e.dtype)
        attributes = {}
        if e.predicate is not None:
            attributes["predicate"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), e.predicate)
        result = ir.VectorType.get([self.lanes], type_) if wide else type_
        return ir.Operation.create(e.op, results=[result], operands=operands, attributes=attributes).results[0]

    def _condition(self, guard: Guard, wide: bool) -> ir.Value:
        """Emits whether every bound holds (per lane when `wide`)."""
        return bounds.condition(self, guard, wide)

    def _check(self, e: Load, wide: bool) -> None:
        """Emits the checks of the user's indices, which count only where the other bounds want the element."""
        for i, b in enumerate(e.guard):
            if b.message:
                ok = self._condition((b,), wide)
                if i:
                    yes = ir.IntegerType.get_signless(1)
                    unwanted = arith.xori(self._condition(e.guard[:i], wide), self.splat(1, yes) if wide else self.constant(1, yes))
                    ok = arith.ori(ok, unwanted)
                self._report(ok, wide, b.message)

    def _report(self, ok: ir.Value, wide: bool, message: str) -> None:
        """Emits a tile.check: the call fails with `message` where `ok` is false in an unmasked lane."""
        mask = self.stack[-1].mask
        if wide and mask is not None:
            ok = arith.ori(ok, arith.xori(mask, self.splat(1, ir.IntegerType.get_signless(1))))
        ir.Operation.create("tile.check", operands=[ok], attributes={"message": ir.StringAttr.get(message)})

    def _scalar_load(self, e: Load) -> ir.Value:
        flat, dtype = self.memory[e.tensor]
        at = self.index(e.at)
        self._check(e, False)
        if e.guard:
            inside = self._condition(e.guard, False)
            at = arith.select(inside, at, self.number(0))
        out = self.from_memory(memref.load(flat, [at]), dtype)
        if e.guard:
            out = arith.select(inside, out, self.constant(0, out.type))
        return out

    def _block_load(self, e: Load) -> ir.Value:
        flat, dtype = self.memory[e.tensor]
        at = e.at.rename(self.merged.rename)
        if e in self.squares:
            square, row = self.squares[e]
            stored = ir.MemRefType(flat.type).element_type
            type_ = ir.VectorType.get([self.lanes], stored)
            minor = ir.AffineMap.get(2, 0, [ir.AffineDimExpr.get(1)])
            inside = ir.ArrayAttr.get([ir.BoolAttr.get(True)])
            pad = self.constant(0, stored)
            return self.from_memory(vector.transfer_read(type_, square, [row, self.number(0)], minor, pad, in_bounds=inside), dtype)
        mask = self.stack[-1].mask
        self._check(e, True)
        if guard := bounds.left(self, e.guard):
            inside = self._condition(guard, True)
            mask = inside if mask is None else arith.andi(mask, inside)
        if e in self.ahead and access.contiguous(self, at):
            self._fetch(flat, self.index(e.at), self.ahead[e])
        return self.from_memory(access.read(self, flat, at, mask), dtype)

    def _fetch(self, flat: ir.Value, at: ir.Value, distance: int) -> None:
        """Prefetches the cache lines `distance` elements after a block; at the end of memory, the last line again."""
        type_ = ir.MemRefType(flat.type)
        line = LINE * 8 // type_.element_type.width
        for i in range(0, self.lanes, line):
            to = arith.minui(arith.addi(at, self.number(distance + i)), self.number(self.sizes.spans[flat] - 1))
            memref.prefetch(flat, [to], False, 2, True)

    def store(self, e: Expr, flat: ir.Value, dtype: str, at: Affine) -> None:
        """Stores `e` to `flat` at the index `at`, in the innermost scope. dtype: the result's element type."""
        at = at.rename(self.merged.rename)
        along = at.coefficient(self.vector) if self.vector is not None else 0
        value = self.block(e) if along else self.value(e)
        with self.point():
            value = self.to_memory(value, dtype)
            if not along:
                memref.store(value, flat, [self.index(at)])
            elif self._streams(flat, value, at):
                vector.store(value, flat, [self.index(at)], nontemporal=True, alignment=LINE)
            else:
                access.write(self, value, flat, at)

    def _streams(self, flat: ir.Value, value: ir.Value, at: Affine) -> bool:
        """Returns whether a store bypasses the caches: the result is too large to be found there again, and every block is whole
        cache lines (results start on a line), so that no line has to be read before it is written."""
        type_ = ir.MemRefType(flat.type)
        item = (type_.element_type.width + 7) // 8
        steps = [at.constant, self.lanes, *(c for _, c in at.terms)]
        vector_step = at.coefficient(self.vector)
        steps = [c for c in steps if c != vector_step or vector_step != 1]
        whole = all(c * item % LINE == 0 for c in steps) and vector_step == 1
        return whole and self.stack[-1].mask is None and 0 < self.stream_bytes <= typical(self.sizes.spans[flat]) * item

    # -- values of a row kept between loops

    def _save(self, e: Expr, value: ir.Value) -> None:
        flat, at = self.saving.pop(e)
        with self.point():
            access.write(self, self.to_memory(self.widen(value), e.dtype), flat, at.rename(self.merged.rename))

    def _read_kept(self, e: Expr) -> ir.Value:
        flat, at = self.kept[e]
        with self.point():
            return self.from_memory(access.read(self, flat, at.rename(self.merged.rename), self.stack[-1].mask), e.dtype)
