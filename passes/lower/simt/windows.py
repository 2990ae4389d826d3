"""Lowers masks of rows that start or end in the middle of an access (tile.window), and loads under them. Accesses in the middle of
a row need no predicate."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith

from lamina.core.sizes import below, divisor

from ...ir.reading import element_of
from .threads import emit_if_else
from .values import PartialMask, WindowMask, vector_of, vector_type

if TYPE_CHECKING:
    from .kernel import ThreadKernel
    from .memory import ThreadMemory

_AT_LEAST, _BELOW, _AT_MOST = arith.CmpIPredicate.sge, arith.CmpIPredicate.slt, arith.CmpIPredicate.sle


def window(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers tile.window to predicates for the accesses that it may cut."""
    shape = k.shape
    low, high = (k.uniform(v) for v in op.operands)
    max_low, min_high = (ir.IntegerAttr(op.attributes[name]).value for name in ("max_low", "min_high"))
    parts: list[PartialMask | None] = []
    for c, first in enumerate(k.offsets):
        head = max_low > c * shape.threads * shape.vec
        tail = ((shape.cluster - 1) * shape.chunks + c + 1) * shape.threads * shape.vec > min_high
        lanes = [k.index_ops.add(first, i) for i in range(shape.vec)]
        bounds = [[arith.cmpi(_AT_LEAST, lane, low)] * head + [arith.cmpi(_BELOW, lane, high)] * tail for lane in lanes]
        fits = [arith.cmpi(_AT_LEAST, first, low)] * head + [arith.cmpi(_AT_MOST, k.index_ops.add(first, shape.vec), high)] * tail
        if head or tail:
            inside = arith.cmpi(_BELOW, first, high) if tail else None
            parts.append(PartialMask(inside, _all(fits), vector_of([_all(w) for w in bounds])))
        else:
            parts.append(None)
    k.values[op.results[0]] = WindowMask(tuple(parts), low, high)


def mask_before(k: "ThreadKernel", count: ir.Value) -> WindowMask:
    """Returns the mask of the first `count` lanes, which may end in the middle of an access."""
    parts = []
    for first in k.offsets:
        lanes = [arith.cmpi(_BELOW, k.index_ops.add(first, i), count) for i in range(k.shape.vec)]
        parts.append(PartialMask(lanes[0], arith.cmpi(_AT_MOST, k.index_ops.add(first, k.shape.vec), count), vector_of(lanes)))
    return WindowMask(tuple(parts), k.index_ops.number(0), count)


def _all(conditions: list[ir.Value]) -> ir.Value:
    return conditions[0] if len(conditions) == 1 else arith.andi(*conditions)


@dataclass(frozen=True)
class CutLoads:
    """Loads of accesses that start before a row or end after it, where they read the neighboring row, or no memory at all.

    memory   emits a thread's accesses
    source   the memref
    divisor  accesses start at multiples of this, or of an access
    pad      what the elements outside of the row are
    """

    memory: "ThreadMemory"
    source: ir.Value
    divisor: int
    pad: ir.Value

    def read(self, starts: Sequence[ir.Value], cuts: Sequence[PartialMask | None]) -> list[ir.Value]:
        """Loads accesses. One branch decides on all of those that may leave the memory: loads in branches of their own would wait
        for each other."""
        memory, source, count = self.memory, self.source, self.memory.shape.vec
        starts = [self._inside(start, cut) for start, cut in zip(starts, cuts, strict=True)]
        if not memory.is_widest(source, self.divisor) or below(memory.span(source), count):
            return [self._whole(s) if c is None else self._singly(s, c) for s, c in zip(starts, cuts, strict=True)]
        within = [self._within(start, cut) for start, cut in zip(starts, cuts, strict=True)]
        checked = [condition for condition in within if condition is not None]

        def careful() -> list[ir.Value]:
            """Loads all accesses, those that leave the memory element by element."""
            each = zip(starts, cuts, within, strict=True)
            return [self._whole(s) if c is None or w is None else self._checked(s, c, w) for s, c, w in each]

        if len(checked) < 2:
            return careful()
        types = [self._type] * len(starts)
        return emit_if_else(reduce(arith.andi, checked), types, lambda: [self._whole(start) for start in starts], careful)

    @property
    def _type(self) -> ir.Type:
        return vector_type(self.memory.shape.vec, element_of(self.source.type))

    def _inside(self, start: ir.Value, cut: PartialMask | None) -> ir.Value:
        """Returns where an access starts; 0 for one that a row has no element of."""
        inside = None if cut is None else cut.inside
        return start if inside is None else arith.select(inside, start, self.memory.index_ops.number(0))

    def _within(self, start: ir.Value, cut: PartialMask | None) -> ir.Value | None:
        """Emits whether all of an access is in memory; None if it always is."""
        count, memory = self.memory.shape.vec, self.memory
        ends = cut is not None and cut.inside is not None and divisor(memory.span(self.source)) % count != 0
        return memory.starts_whole(self.source, start, count) if cut is not None and (self.divisor % count or ends) else None

    def _whole(self, start: ir.Value) -> ir.Value:
        return self.memory.load(self.source, start, self.memory.shape.vec, self.divisor)

    def _singly(self, start: ir.Value, cut: PartialMask) -> ir.Value:
        return self.memory.single_loads(self.source, start, cut.lanes, self.pad)

    def _checked(self, start: ir.Value, cut: PartialMask, within: ir.Value) -> ir.Value:
        """Loads an access whole where it is in memory, else element by element."""
        return emit_if_else(within, [self._type], lambda: [self._whole(start)], lambda: [self._singly(start, cut)])[0]
