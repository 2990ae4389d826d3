"""Loads and stores of a thread's share of a block: whole vectors, of up to 16 bytes where addresses are so aligned.

Loads past a bound read the first address of the buffer instead, so that they need no branch; stores past it are skipped.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, vector
from torch_mlir.dialects.arith import AtomicRMWKind

from lamina.core.sizes import SizeLike, at_most

from ...ir.reading import element_of
from ...ir.sizes import i64
from .threads import IndexBuilder, Shape, emit_if
from .values import PartialMask, Spread, WholeMask, WindowMask, as_spread, elements, vector_of, vector_type
from .windows import CutLoads

WIDEST = 16  # bytes of one access
ATOMIC = {
    "arith.addf": AtomicRMWKind.addf, "arith.addi": AtomicRMWKind.addi, "arith.maxsi": AtomicRMWKind.maxs,
    "arith.minsi": AtomicRMWKind.mins,
}  # fmt: skip
"""Ops that are instructions on memory."""
NEIGHBORS = "tile.neighbors"
"""Marks each of so many consecutive combinations of elements that lie side by side, the first aligned to all their bytes."""
Span = tuple[SizeLike, ir.Value]
Mask = WholeMask | Spread | WindowMask | None


@dataclass(frozen=True)
class Stores:
    """The functions that emit stores: plain ones, or atomic operations.

    single     takes an element, the memory and its place
    neighbors  takes a vector, the memory, the place of the first element, and the bytes that it is aligned to
    """

    single: Callable[[ir.Value, ir.Value, list[ir.Value]], object]
    neighbors: Callable[[IndexBuilder, ir.Value, ir.Value, ir.Value, int], object]


def _side_by_side(_: IndexBuilder, piece: ir.Value, target: ir.Value, start: ir.Value, alignment: int) -> None:
    """Stores neighbors by one access."""
    vector.store(piece, target, [start], alignment=alignment)


PLAIN = Stores(memref.store, _side_by_side)
"""Overwrites what memory holds."""


def combining_stores(name: str) -> Stores:
    """Returns stores that combine values with what memory holds by an arith op, while other threads do so, too."""
    return Stores(partial(_combine, name), partial(_combine_neighbors, name))


def _combine_neighbors(name: str, index_ops: IndexBuilder, piece: ir.Value, memory: ir.Value, start: ir.Value, _: int) -> None:
    """Combines neighbors one by one; NEIGHBORS marks them for targets that have an instruction for all."""
    values = elements(piece)
    for i, value in enumerate(values):
        _combine(name, value, memory, [index_ops.add(start, i)]).attributes[NEIGHBORS] = i64(len(values))


def _combine(name: str, value: ir.Value, memory: ir.Value, indices: list[ir.Value]) -> ir.Operation:
    """Combines an element by an instruction, or by exchanging the old value for the new one until no other thread has come
    between."""
    if name in ATOMIC:
        return ir.Operation.create("memref.atomic_rmw", [value.type], [value, memory, *indices], {"kind": i64(ATOMIC[name].value)})
    atomic = ir.Operation.create("memref.generic_atomic_rmw", [value.type], [memory, *indices], regions=1)
    block = atomic.regions[0].blocks.append(value.type)
    with ir.InsertionPoint(block):
        new = ir.Operation.create(name, [value.type], [block.arguments[0], value]).results[0]
        ir.Operation.create("memref.atomic_yield", operands=[new])
    return atomic


class ThreadMemory:
    """Emits a thread's accesses.

    offsets     the thread's first lane of each access
    active      whether the program exists at all; None: it always does
    aligned     bytes that a memref's first element is aligned to
    spans       elements of memrefs whose number depends on the call, and that number's value
    ends_first  whether the last access is stored before the others. Where a mask may leave it out, ptxas would otherwise move what
                is loaded for it alone into a branch at the program's end
    """

    def __init__(
        self, shape: Shape, index_ops: IndexBuilder, offsets: list[ir.Value], active: ir.Value | None, aligned: dict[ir.Value, int],
        spans: dict[ir.Value, Span], ends_first: bool,
    ) -> None:  # fmt: skip
        self.shape, self.index_ops, self.offsets, self.active, self.aligned, self.spans = (
            shape,
            index_ops,
            offsets,
            active,
            aligned,
            spans,
        )
        self.ends_first = ends_first

    # -- loads

    def read(self, source: ir.Value, starts: list[ir.Value], divisor: int, mask: Mask, pad: ir.Value, padded: bool) -> Spread:
        """Loads the accesses of `source` at `starts`, which are multiples of `divisor` or of an access. padded: masked lanes must
        read `pad`; otherwise they are never looked at."""
        if isinstance(mask, WindowMask):
            read = CutLoads(self, source, divisor, pad).read(starts, mask.parts)
            return Spread(tuple(_padded(part, cut, pad) if padded else part for part, cut in zip(read, mask.parts, strict=True)))
        if isinstance(mask, WholeMask) and not at_most(self.shape.vec, self.span(source)):
            mask = as_spread(mask, self.shape.vec)
        if isinstance(mask, Spread):
            wanted = zip(starts, mask.parts, strict=True)
            return Spread(tuple(self.single_loads(source, start, lanes, pad) for start, lanes in wanted))
        inside = mask.inside if mask else (None,) * self.shape.chunks
        parts = []
        for start, predicate in zip(starts, inside, strict=True):
            if predicate is not None:
                start = arith.select(predicate, start, self.index_ops.number(0))
            part = self.load(source, start, self.shape.vec, divisor)
            if predicate is not None and padded:
                part = arith.select(predicate, part, vector.broadcast(part.type, pad))
            parts.append(part)
        return Spread(tuple(parts))

    def span(self, source: ir.Value) -> SizeLike:
        """Returns the elements of a memref."""
        return self.spans[source][0] if source in self.spans else int(ir.MemRefType(source.type).shape[0])

    def starts_whole(self, source: ir.Value, start: ir.Value, count: int) -> ir.Value:
        """Emits whether memory holds `count` elements from `start` on; a start before the memory is a large number."""
        if source not in self.spans:
            return arith.cmpi(arith.CmpIPredicate.ule, start, self.index_ops.number(self.span(source) - count))
        size, length = self.spans[source]
        last = arith.subi(length, self.index_ops.number(count))
        fits = arith.cmpi(arith.CmpIPredicate.ule, start, last)
        return (
            fits if at_most(count, size) else arith.andi(fits, arith.cmpi(arith.CmpIPredicate.sge, last, self.index_ops.number(0)))
        )

    def single_loads(self, source: ir.Value, start: ir.Value, lanes: ir.Value, pad: ir.Value) -> ir.Value:
        """Loads the elements from `start` on one by one; `pad` where `lanes` is false."""
        wanted = enumerate(elements(lanes))
        return vector_of([self._element(source, self.index_ops.add(start, i), lane, pad) for i, lane in wanted])

    def gather(self, source: ir.Value, index: Spread, mask: Mask, other: Spread) -> Spread:
        """Loads single elements at their own indices; `other` where the mask is false."""
        parts = []
        for part, pads, wanted in zip(index.parts, other.parts, self._wanted(mask), strict=True):
            each = zip(elements(part), wanted, elements(pads), strict=True)
            parts.append(vector_of([self._element(source, p, w, x) for p, w, x in each]))
        return Spread(tuple(parts))

    def scatter(self, value: Spread, target: ir.Value, index: Spread, mask: Mask, store: Callable[..., object]) -> None:
        """Stores single elements at their own indices, where the mask holds. store: takes an element, the memory and an index."""
        for part, positions, wanted in zip(value.parts, index.parts, self._wanted(mask), strict=True):
            for x, position, lane in zip(elements(part), elements(positions), wanted, strict=True):
                self.when(lane, partial(store, x, target, [position]))

    def _wanted(self, mask: Mask) -> Iterator[list[ir.Value | None]]:
        """Yields, for each access, the mask of each lane; None if it always holds."""
        if isinstance(mask, WindowMask):
            mask = as_spread(mask, self.shape.vec)
        for c in range(self.shape.chunks):
            if isinstance(mask, Spread):
                yield list(elements(mask.parts[c]))
            else:
                yield [mask.inside[c] if mask else None] * self.shape.vec

    def starts(self, first: ir.Value) -> list[ir.Value]:
        """Returns the indices of the thread's accesses to a block whose first lane is element `first`."""
        return [self.index_ops.add(first, o) for o in self.offsets]

    def _element(self, source: ir.Value, start: ir.Value, wanted: ir.Value | None, pad: ir.Value) -> ir.Value:
        if wanted is None:
            return memref.load(source, [start])
        value = memref.load(source, [arith.select(wanted, start, self.index_ops.number(0))])
        return arith.select(wanted, value, pad)

    def load(self, source: ir.Value, start: ir.Value, count: int, divisor: int) -> ir.Value:
        """Loads `count` elements from `start` on, which is a multiple of `divisor` or of `count`."""
        stored = ir.MemRefType(source.type).element_type
        step = self.step(source, count, divisor)
        if step == 1:
            return vector_of([memref.load(source, [self.index_ops.add(start, i)]) for i in range(count)])
        pieces = [
            vector.load(vector_type(step, stored), source, [self.index_ops.add(start, i)], alignment=step * stored.width // 8)
            for i in range(0, count, step)
        ]
        return pieces[0] if len(pieces) == 1 else vector_of([e for p in pieces for e in elements(p)])

    # -- stores

    def write(self, value: Spread, target: ir.Value, starts: list[ir.Value], divisor: int, mask: Mask, how: Stores = PLAIN) -> None:
        """Stores a block's accesses to `target` at `starts`, where the mask holds."""
        order = list(enumerate(zip(value.parts, starts, strict=True)))
        if isinstance(mask, WholeMask) and self.ends_first:
            order.reverse()
        for c, (part, start) in order:
            if isinstance(mask, WindowMask):
                self._write_cut(part, target, start, divisor, mask.parts[c], how)
            elif isinstance(mask, Spread):
                self._single_stores(part, target, start, mask.parts[c], how)
            else:
                self.when(mask.inside[c] if mask else None, partial(self.store, part, target, start, divisor, how))

    def _write_cut(
        self, part: ir.Value, target: ir.Value, start: ir.Value, divisor: int, cut: PartialMask | None, how: Stores
    ) -> None:  # fmt: skip
        self.when(cut.all_inside if cut else None, partial(self.store, part, target, start, divisor, how))
        if cut is None:
            return
        true = self.index_ops.number(1, ir.IntegerType.get_signless(1))
        some = arith.xori(cut.all_inside, true) if cut.inside is None else arith.andi(cut.inside, arith.xori(cut.all_inside, true))
        self.when(some, partial(self._single_stores, part, target, start, cut.lanes, how))

    def _single_stores(self, part: ir.Value, target: ir.Value, start: ir.Value, lanes: ir.Value, how: Stores) -> None:
        """Stores the elements for which `lanes` holds one by one."""
        for i, (m, e) in enumerate(zip(elements(lanes), elements(part), strict=True)):
            self.when(m, partial(how.single, e, target, [self.index_ops.add(start, i)]))

    def store(self, part: ir.Value, target: ir.Value, start: ir.Value, divisor: int, how: Stores = PLAIN) -> None:
        """Stores one access, in pieces as wide as alignment allows."""
        count, stored = self.shape.vec, element_of(part.type)
        step = self.step(target, count, divisor)
        for i in range(0, count, step):
            piece_start = self.index_ops.add(start, i)
            if step == 1:
                how.single(vector.extract(part, dynamic_position=[], static_position=[i]), target, [piece_start])
                continue
            piece = part if step == count else vector.extract_strided_slice(vector_type(step, stored), part, [i], [step], [1])
            how.neighbors(self.index_ops, piece, target, piece_start, step * stored.width // 8)

    def store_scalar(self, value: ir.Value, target: ir.Value, index: list[ir.Value], leader: ir.Value | None) -> None:
        """Stores a scalar that all threads know, from the one for which `leader` holds (None: there is only one)."""
        self.when(leader, lambda: memref.store(value, target, index))

    def when(self, condition: ir.Value | None, make: Callable[[], object]) -> None:
        """Emits `make` where the condition holds and the program exists."""
        both = [c for c in (condition, self.active) if c is not None]
        if not both:
            make()
            return
        emit_if(both[0] if len(both) == 1 else arith.andi(both[0], both[1]), make)

    def is_widest(self, buffer: ir.Value, divisor: int) -> bool:
        """Returns whether alignment lets accesses be as wide as there are elements for."""
        item = max(ir.MemRefType(buffer.type).element_type.width // 8, 1)
        return self.step(buffer, self.shape.vec, divisor) >= min(self.shape.vec, WIDEST // item)

    def step(self, buffer: ir.Value, count: int, divisor: int) -> int:
        """Returns the elements of the widest aligned access."""
        item = max(ir.MemRefType(buffer.type).element_type.width // 8, 1)
        step = count
        while step > 1 and (step * item > WIDEST or divisor % step or self.aligned.get(buffer, item) % (step * item)):
            step //= 2
        return step


def _padded(part: ir.Value, cut: PartialMask | None, pad: ir.Value) -> ir.Value:
    """Returns an access that was read with padding in the lanes that a mask cuts off."""
    return part if cut is None else arith.select(cut.lanes, part, vector.broadcast(part.type, pad))
