"""lamina-split-reductions: splits reductions with few results into partial reductions that run in parallel, and their sum."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.core.sizes import is_symbolic, least, most, typical

from ..infra.base import Pass
from ..ir.extern_calls import memory_strides
from ..ir.reading import REDUCERS, Generic, ops_in, producer, shape_of, width
from ..ir.rewriting import bodies
from ..trace.mixed_orders import orders_of
from .nested_reductions import merge_nested
from .partial_reductions import cut, split
from .ragged_parts import joined, ragged, split_ragged
from .repeated_terms import reduce_repeated_once

BLOCK = 128  # columns of 32-bit elements that one program sums, and rows of them that are worth a part
LEAST = 8  # parts that are worth a second kernel
FEWER = 64  # times that a call may have more elements than the one that was traced


@dataclass(frozen=True)
class SplitReductions(Pass):
    """Split reductions to few results in two, so that they can run in parallel.

    A reduction with few results over at least `elements` is split: its outermost reduced loop of n becomes (parts, n / parts),
    where `parts` is the largest allowed divisor of n; a second op reduces the partial results. Where neighbors in memory are not
    reduced together (columns, the channels of a channels-last image), several loops may be split. The order of additions depends on
    the shape alone, never on the number of threads. A reduction of another's results is first merged with it, and a loop along
    which nothing varies becomes a product with its count. Of symbolic sizes, those of the call that was traced decide, and what is
    left of a loop by the number of parts is reduced by itself, unless parts are `ragged`.

        %s = sum(%x : tensor<4096x4096xf32>) -> tensor<f32>
     -> %p = sum(expand %x : tensor<64x64x4096xf32>) -> tensor<64xf32> ; %s = sum(%p) -> tensor<f32>

    elements  a reduction of fewer is left alone
    rows      a reduction along neighboring elements in memory is split when it has fewer results
    columns   likewise, a reduction across them, or of rows that lie in pieces, such as the windows of a pooling or the channels of
              several images, which no cluster of CTAs shares (0: as rows)
    parts     partial results of one result, at most
    programs  programs that there is room for: this limits the parts, as a program yields one row's result or those of BLOCK columns
    ragged    symbolic loops get as many parts as suit the sizes of each call, the last of which is shorter. Along neighboring
              elements in memory, the others are multiples of this many bytes: what a program reads at once (0: not so)
    """

    name: ClassVar[str] = "lamina-split-reductions"
    elements: int = 262144
    rows: int = 8
    columns: int = 0
    parts: int = 64
    programs: int = 64 * 8
    ragged: int = 0

    def run(self, module: ir.Module) -> None:
        """Splits the reductions of every function of the module."""
        for block in bodies(module):
            merge_nested(block)
            reduce_repeated_once(block)
            places = _Places(block, self.columns > 0)
            for op in ops_in(block, "linalg.generic"):
                self._split(op, places)

    def _split(self, op: ir.Operation, places: "_Places") -> None:
        g = places.generic(op)
        if g is None or not any(g.reduced) or len(op.results) != 1:
            return
        extents = tuple(map(typical, g.extents))
        size, results = math.prod(extents), math.prod(n for n, r in zip(extents, g.reduced, strict=True) if not r)
        combine = producer(g.yields[0])
        along = _along_memory(g, places)
        columns = BLOCK * max(1, 32 // min(map(width, op.operands)))
        pieces = not along or _in_pieces(g, places, size // max(results, 1) >= self.elements // LEAST)
        limit = self.columns if self.columns and pieces else self.rows
        cut_last = bool(self.ragged) and is_symbolic(g.extents)
        few = size < (self.elements // FEWER if cut_last else self.elements)
        if results >= limit or few or combine is None or combine.name not in REDUCERS:
            return
        if g.block.arguments[g.inputs] not in list(combine.operands) or _uses_index(g):
            return
        inner, together = _inner_loops(g, places), 1 if along else columns
        if cut_last:
            at_once = self.ragged * 8 // min(width(s) for v in op.operands for s in _sources(v, places))
            places.forget(op)
            self._split_ragged(g, inner, together, at_once, combine.name)
            return
        most = min(self.parts, self.programs * together // max(results, 1))
        most = most if along else min(most, size // max(results, 1) // BLOCK)
        known = not is_symbolic(g.extents)
        parts = (_one(g, most, inner) if along else _several(g, most)) if known else {}
        places.forget(op)
        if math.prod(parts.values()) < LEAST:
            even = _even(g, extents, most, inner)
            if even is None:
                return
            loop, count, length = even
            parts, n = {loop: count}, g.extents[loop]
            whole, rest = (count * length, n - count * length) if known else (n // count * count, n % count)
            if rest != 0:
                g = cut(g, loop, whole, rest, combine.name)
        split(g, parts, combine.name)

    def _split_ragged(self, g: Generic, inner: set[int], together: int, at_once: int, combine: str) -> None:
        """Splits the longest loop, or another than one of `inner` along neighbors in memory. together: results of a program;
        at_once: neighbors that it reads at once."""
        loops = [i for i, r in enumerate(g.reduced) if r and _splittable(g, i)]
        results = math.prod(n for n, r in zip(g.extents, g.reduced, strict=True) if not r)
        if not loops or self.programs * together // max(typical(results), 1) < LEAST:
            return
        if inner.intersection(loops):
            rank, g = len(g.extents), joined(g)
            if len(g.extents) < rank:
                inner, loops = {len(g.extents) - 1}, [len(g.extents) - 1]
        loop = max(loops, key=lambda i: (i not in inner and typical(g.extents[i]) >= LEAST, typical(g.extents[i])))
        reduced = math.prod(n for n, r in zip(g.extents, g.reduced, strict=True) if r)
        worth = reduced // (BLOCK if together > 1 else at_once)
        wanted = least(self.parts, self.programs * together // most(1, results), worth)
        split_ragged(g, loop, *ragged(g.extents[loop], wanted, at_once if loop in inner else 1), combine)


def _one(g: Generic, most: int, inner: set[int]) -> dict[int, int]:
    """Returns the first loop that makes enough parts, and how many. A loop along neighbors in memory is taken only where no
    other does, in pieces that are worth a part."""
    for loop in sorted((i for i, r in enumerate(g.reduced) if r and _splittable(g, i)), key=lambda i: i in inner):
        if (parts := _divisor(g.extents[loop], min(most, g.extents[loop] // BLOCK) if loop in inner else most)) >= LEAST:
            return {loop: parts}
    return {}


def _several(g: Generic, most: int) -> dict[int, int]:
    """Returns the parts of adjacent loops, up to `most` in all, from the outermost loops that make enough, as an extent may be
    prime."""
    loops = [i for i, r in enumerate(g.reduced) if r and _splittable(g, i)]
    for first in range(len(loops)):
        parts, left = {}, most
        for loop in loops[first:]:
            parts[loop] = _divisor(g.extents[loop], left)
            left //= parts[loop]
            if parts[loop] < g.extents[loop]:
                break
        if math.prod(parts.values()) >= LEAST:
            return {loop: n for loop, n in parts.items() if n > 1}
    return {}


def _even(g: Generic, extents: Sequence[int], most: int, inner: set[int]) -> tuple[int, int, int] | None:
    """Returns the longest loop, and how many equal parts of which length to split it into, where no extent has a divisor that
    would do, or some are symbolic. Along neighbors in memory, parts are rows of whole accesses. None where there would be too few
    parts. extents: typical ones."""
    loops = [i for i, r in enumerate(g.reduced) if r and _splittable(g, i)]
    if is_symbolic(g.extents):  # of an outer loop, parts are contiguous where the whole is
        loops = [i for i in loops if i not in inner and extents[i] >= LEAST] or loops
    loop = max(loops, key=lambda i: (i not in inner or extents[i] >= LEAST * BLOCK, extents[i]), default=None)
    if loop is None or most < LEAST:
        return None
    n = extents[loop]
    if is_symbolic(g.extents):  # what is left, of fewer iterations than there are parts, takes no longer than a part
        most = min(most, max(LEAST, math.isqrt(n)))
    length = -(-n // (most * BLOCK)) * BLOCK if loop in inner else max(1, n // most)
    parts = min(most, n // length)
    if is_symbolic(g.extents) and parts > LEAST:  # the schedule of the rest goes by what the traced call leaves: as much as may be
        parts = max(range(max(LEAST, 3 * parts // 4), parts + 1), key=lambda p: n % p)
    return (loop, parts, length) if parts >= LEAST else None


def _divisor(n: int, most: int) -> int:
    """Returns the largest divisor of `n` up to `most`."""
    return max((p for p in range(1, min(most, n) + 1) if n % p == 0), default=1)


class _Places:
    """Values that are stored in another order before they are reduced."""

    def __init__(self, block: ir.Block, mixed: bool) -> None:
        """mixed: whether lamina-fuse stores what mixes orders (where it balances operations against bytes)."""
        self._generics: dict[ir.Operation, Generic | None] = {}
        ops = ops_in(block) if mixed else []
        self.innermost = orders_of(ops, self.generic).innermost

    def generic(self, op: ir.Operation) -> Generic | None:
        """Returns a generic, read once for all reductions behind it; None where a map is not affine in the loops."""
        if op not in self._generics:
            self._generics[op] = Generic.read_affine(op)
        return self._generics[op]

    def forget(self, op: ir.Operation) -> None:
        """Drops an operation before it is erased, as another may be created at its address."""
        self._generics.pop(op, None)


def _along_memory(g: Generic, places: _Places) -> bool:
    """Returns whether the innermost dimension of an operand is reduced."""
    return any(g.reduced[i] for i in _inner_loops(g, places))


def _inner_loops(g: Generic, places: _Places) -> set[int]:
    """Returns the loops along the innermost dimensions of the operands."""
    inner = [m[_innermost(v, places)][1] for v, m in zip(g.op.operands, g.maps[: g.inputs], strict=False) if m]
    return {i for terms in inner for i, _ in terms}


def _in_pieces(g: Generic, places: _Places, long: bool) -> bool:
    """Returns whether the elements reduced to one result lie apart in some operand's memory: in a slice, with others between, or,
    if there are enough that their parts are worth a second kernel (`long`), in the same channel of several images."""
    for v, m in zip(g.op.operands, g.maps[: g.inputs], strict=False):
        reduced = [len(terms) > 0 and all(g.reduced[i] for i, _ in terms) for _, terms in m]
        if any(_leaves_gaps(s, reduced) or (long and _alternate(s, reduced)) for s in _sources(v, places)):
            return True
    return False


def _alternate(v: ir.Value, reduced: list[bool]) -> bool:
    """Returns whether a dimension that is not reduced lies between `reduced` ones in memory."""
    shape, strides = (tuple(map(typical, sizes)) for sizes in (shape_of(v), memory_strides(v)))
    inwards = [r for _, r in sorted(((s, r) for n, s, r in zip(shape, strides, reduced, strict=True) if n > 1 and s), reverse=True)]
    kept = inwards.index(False) if False in inwards else len(inwards)
    return True in inwards[:kept] and True in inwards[kept:]


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


def _innermost(v: ir.Value, places: _Places) -> int:
    """Returns the dimension that is contiguous in memory in the first elementwise source of a value that is not broadcast along
    a dimension."""
    if (known := places.innermost.get(v)) is not None:
        return known
    shape = shape_of(v)
    for source in _sources(v, places):
        strides = map(typical, memory_strides(source))
        sides = [(s, -i) for i, (s, n) in enumerate(zip(strides, shape, strict=False)) if typical(n) > 1]
        if sides and all(s for s, _ in sides):
            return -min(sides)[1]
    return len(shape) - 1


def _sources(v: ir.Value, places: _Places) -> Iterator[ir.Value]:
    """Yields the values that `v` is computed from element by element, up to those that are not computed in this way."""
    left, seen, shape = [v], {v}, shape_of(v)
    whole = tuple((0, ((i, 1),)) for i in range(len(shape)))
    while left:
        v = left.pop()
        op, alike = producer(v), []
        g = places.generic(op) if op is not None and op.name == "linalg.generic" else None
        if op is not None and g is not None and not any(g.reduced):
            alike = [o for o, m in zip(op.operands, g.maps[: g.inputs], strict=False) if m == whole and shape_of(o) == shape]
        if not alike:
            yield v
        left += [o for o in reversed(alike) if o not in seen]
        seen.update(alike)


def _uses_index(g: Generic) -> bool:
    return any(o.operation.name in ("linalg.index", "tensor.extract") for o in g.block.operations)


def _splittable(g: Generic, loop: int) -> bool:
    """Returns whether every operand uses `loop` as the whole index of a dimension, or not at all."""
    for m in g.maps[: g.inputs]:
        for constant, terms in m:
            if any(i == loop for i, _ in terms) and (len(terms) > 1 or terms[0][1] != 1 or constant):
                return False
    return True
