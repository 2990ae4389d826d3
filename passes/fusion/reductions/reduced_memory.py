"""Describes how the elements that a reduction combines lie in memory: contiguous, in contiguous pieces, or strided."""

import math

from torch_mlir import ir

from lamina.core.sizes import typical

from ...ir.reading import Generic, element_bits, ops_in, producer, shape_of
from ...trace.memory_order import MemoryOrder

LITTLE = 8  # times that an operand may have fewer elements than another before it is of no account
LINE, SECTOR = 1024, 256  # bits of a line of a cache, and of the part of it that is read at once


class ReducedMemory:
    """The memory of what the reductions of a block combine, as it is or will be when it is read."""

    def __init__(self, block: ir.Block, mixed: bool) -> None:
        """mixed: whether lamina-fuse stores what mixes orders (where it balances operations against bytes)."""
        self._generics: dict[ir.Operation, Generic | None] = {}
        self._order = MemoryOrder(ops_in(block) if mixed else [], self.generic)

    def generic(self, op: ir.Operation) -> Generic | None:
        """Returns a generic, read once for all reductions behind it; None if a map is not affine in the loops."""
        if op not in self._generics:
            self._generics[op] = Generic.read_affine(op)
        return self._generics[op]

    def forget(self, op: ir.Operation) -> None:
        """Drops an operation before it is erased, as another may be created at its address."""
        self._generics.pop(op, None)

    def inner_loops(self, g: Generic) -> set[int]:
        """Returns the loops along the innermost dimensions of the operands, except strided ones with few elements compared with
        others (a factor for each row)."""
        operands = [(v, m, typical(math.prod(shape_of(v)))) for v, m in g.reads if m]
        most = max((n for *_, n in operands), default=0)
        inner = [m[self._order.innermost(v)][1] for v, m, n in operands if n * LITTLE >= most]
        return {i for terms in inner for i, _ in terms}

    def along(self, g: Generic) -> bool:
        """Returns whether the innermost dimension of an operand is reduced."""
        return any(g.reduced[i] for i in self.inner_loops(g))

    def pieces(self, g: Generic, long: bool) -> bool:
        """Returns whether the elements reduced to one result are strided in some operand's memory: not contiguous, in a slice, with
        others between, or, if there are enough that their parts are worth a second kernel (`long`), on both sides of a dimension
        that is kept, as a channel of several images does."""
        if not self.along(g):
            return True
        for v, m in g.reads:
            reduced = [_is_reduced(g, terms) for _, terms in m]
            if any(_leaves_gaps(s, reduced) for s in self._order.sources(v)) or (long and self._alternates(v, reduced)):
                return True
        return False

    def short_pieces(self, g: Generic) -> list[int]:
        """Returns the loops along which a row has fewer neighbors in memory than a line holds, where it continues beyond those of
        other rows; none for other rows."""
        for v, m in g.reads:
            reduced = [_is_reduced(g, terms) for _, terms in m]
            if not self._alternates(v, reduced):
                continue
            loops: list[int] = []
            bits = min(element_bits(s) for s in self._order.sources(v))
            for d in reversed(self._order.inwards(v)):
                if not reduced[d]:
                    return loops
                if len(m[d][1]) != 1 or (bits := bits * typical(shape_of(v)[d])) >= LINE:
                    break
                loops.append(m[d][1][0][0])
        return []

    def overread(self, g: Generic) -> int:
        """Returns how many times the bytes of a row its program reads: whole sectors for pieces that are shorter."""
        if not (loops := self.short_pieces(g)):
            return 1
        return max(SECTOR // (self.narrowest(g) * typical(math.prod(g.extents[i] for i in loops))), 1)

    def narrowest(self, g: Generic) -> int:
        """Returns the bits of the narrowest element that is read."""
        return min(element_bits(s) for v in g.op.operands for s in self._order.sources(v))

    def order(self, g: Generic) -> list[int]:
        """Returns the loops in the order in which their elements lie in the memory of the operand with most dimensions, the
        outermost first; in front those that walk none of it. Loops that are not reduced keep their order in the result, whose
        rows a kernel walks."""
        v, m = max(g.reads, key=lambda x: len(x[1]))
        walked = list(dict.fromkeys(i for d in self._order.inwards(v) for i, _ in m[d][1]))
        loops = [*(i for i in range(len(g.extents)) if i not in walked), *walked]
        kept = iter([i for _, terms in g.result_map for i, _ in terms])
        return [i if g.reduced[i] else next(kept) for i in loops]

    def _alternates(self, v: ir.Value, reduced: list[bool]) -> bool:
        """Returns whether a dimension that is not reduced lies between `reduced` ones in memory."""
        inwards = [reduced[d] for d in self._order.inwards(v)]
        inwards = inwards[inwards.index(True) :] if True in inwards else []
        return False in inwards and True in inwards[inwards.index(False) :]


def _is_reduced(g: Generic, terms: tuple[tuple[int, int], ...]) -> bool:
    """Returns whether a dimension with this index is walked by reduced loops alone."""
    return len(terms) > 0 and all(g.reduced[i] for i, _ in terms)


def _leaves_gaps(v: ir.Value, reduced: list[bool]) -> bool:
    """Returns whether a value is a slice that skips elements between those of the `reduced` dimensions, in row-major memory."""
    op = producer(v)
    while op is not None and op.name == "tensor.extract_slice" and shape_of(op.operands[0]) and len(reduced) == len(shape_of(v)):
        source, steps = shape_of(op.operands[0]), list(ir.DenseI64ArrayAttr(op.attributes["static_strides"]))
        if len(source) != len(reduced):
            return False
        walked = [d for d, n in enumerate(shape_of(v)) if reduced[d] and typical(n) > 1]
        if any(steps[d] != 1 for d in walked) or any(shape_of(v)[d] != source[d] for d in walked[1:]):
            return True
        v = op.operands[0]
        op = producer(v)
    return False
