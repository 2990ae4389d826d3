"""lamina-split-reductions: splits reductions with few results into partial reductions that run in parallel, and their sum."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.core.sizes import is_symbolic, least, most, typical

from ..infra.base import Pass
from ..ir.reading import REDUCERS, Generic, ops_in, producer, width
from ..ir.rewriting import bodies
from .nested_reductions import merge_nested
from .partial_reductions import cut, split
from .ragged_parts import joined, ragged, split_ragged
from .reduced_memory import ReducedMemory
from .repeated_terms import reduce_repeated_once

BLOCK = 128  # columns of 32-bit elements that one program sums, and rows of them that are worth a part
LEAST = 8  # parts that are worth a second kernel
FEWER = 64  # times that a call may have more elements than the one that was traced


@dataclass(frozen=True)
class SplitReductions(Pass):
    """Split reductions to few results in two, so that they can run in parallel.

    A reduction with few results over at least `elements` is split: its outermost reduced loop of n becomes (parts, n / parts),
    where `parts` is the largest allowed divisor of n; a second op reduces the partial results. Where neighbors in memory are not
    reduced together (columns, the channels of a channels-last image), several loops may be split. Where few are, between elements
    of other results (the channels of a group of a channels-last image), each is reduced as a column first. The order of additions
    depends on the shape alone, never on the number of threads. A reduction of another's results is first merged with it, and a loop
    along which nothing varies becomes a product with its count. Of symbolic sizes, those of the call that was traced decide, and
    what is left of a loop by the number of parts is reduced by itself, unless parts are `ragged`.

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
            memory = ReducedMemory(block, self.columns > 0)
            for op in ops_in(block, "linalg.generic"):
                self._split(op, memory)

    def _split(self, op: ir.Operation, memory: ReducedMemory) -> None:
        g = memory.generic(op)
        if g is None or not any(g.reduced) or len(op.results) != 1:
            return
        extents = tuple(map(typical, g.extents))
        size, results = math.prod(extents), math.prod(n for n, r in zip(extents, g.reduced, strict=True) if not r)
        combine = producer(g.yields[0])
        long = size // max(results, 1) >= self.elements // LEAST
        columns = BLOCK * max(1, 32 // min(map(width, op.operands)))
        pieces = memory.pieces(g, long)
        limit = self.columns if self.columns and pieces else self.rows
        cut_last = bool(self.ragged) and is_symbolic(g.extents)
        few = size < (self.elements // FEWER if cut_last else self.elements)
        if results >= limit or few or combine is None or combine.name not in REDUCERS:
            return
        if g.block.arguments[g.inputs] not in list(combine.operands) or _uses_index(g):
            return
        apart = memory.short_pieces(g) if long and self.columns else []
        inner, order, along = memory.inner_loops(g), memory.order(g), not apart and memory.along(g)
        results, together = results * math.prod(extents[i] for i in apart), 1 if along else columns
        loops = [i for i, r in enumerate(g.reduced) if r and i not in apart and _splittable(g, i)]
        if cut_last:
            at_once = self.ragged * 8 // memory.narrowest(g)
            memory.forget(op)
            self._split_ragged(g, loops, apart, order, inner, together, at_once, combine.name)
            return
        most = min(self.parts, self.programs * together // max(results, 1))
        most = most if along else min(most, size // max(results, 1) // BLOCK)
        known = not is_symbolic(g.extents)
        parts = (_one(g, loops, most, inner) if along else _several(g, loops, most)) if known else {}
        memory.forget(op)
        if math.prod(parts.values()) < LEAST:
            even = _even(g, loops, extents, most, inner)
            if even is None:
                return
            loop, count, length = even
            parts, n = {loop: count}, g.extents[loop]
            whole, rest = (count * length, n - count * length) if known else (n // count * count, n % count)
            if rest != 0:
                g = cut(g, loop, whole, rest, combine.name)
        split(g, parts, apart, order, combine.name)

    def _split_ragged(
        self,
        g: Generic,
        loops: list[int],
        apart: list[int],
        order: list[int],
        inner: set[int],
        together: int,
        at_once: int,
        combine: str,
    ) -> None:
        """Splits the longest of `loops`, or another than one of `inner` along neighbors in memory. apart, order: see `split`;
        together: results of a program; at_once: neighbors that it reads at once."""
        results = math.prod(n for i, (n, r) in enumerate(zip(g.extents, g.reduced, strict=True)) if not r or i in apart)
        if not loops or self.programs * together // max(typical(results), 1) < LEAST:
            return
        if inner.intersection(loops):
            rank, g = len(g.extents), joined(g)
            if len(g.extents) < rank:
                inner, loops, order = {len(g.extents) - 1}, [len(g.extents) - 1], list(range(len(g.extents)))
        loop = max(loops, key=lambda i: (i not in inner and typical(g.extents[i]) >= LEAST, typical(g.extents[i])))
        reduced = math.prod(n for i, (n, r) in enumerate(zip(g.extents, g.reduced, strict=True)) if r and i not in apart)
        worth = reduced // (BLOCK if together > 1 else at_once)
        wanted = least(self.parts, self.programs * together // most(1, results), worth)
        split_ragged(g, loop, *ragged(g.extents[loop], wanted, at_once if loop in inner else 1), apart, order, combine)


def _one(g: Generic, loops: list[int], most: int, inner: set[int]) -> dict[int, int]:
    """Returns the first loop that makes enough parts, and how many. A loop along neighbors in memory is taken only where no
    other does, in pieces that are worth a part."""
    for loop in sorted(loops, key=lambda i: i in inner):
        if (parts := _divisor(g.extents[loop], min(most, g.extents[loop] // BLOCK) if loop in inner else most)) >= LEAST:
            return {loop: parts}
    return {}


def _several(g: Generic, loops: list[int], most: int) -> dict[int, int]:
    """Returns the parts of adjacent loops, up to `most` in all, from the outermost loops that make enough, as an extent may be
    prime."""
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


def _even(g: Generic, loops: Collection[int], extents: Sequence[int], most: int, inner: set[int]) -> tuple[int, int, int] | None:
    """Returns the longest loop, and how many equal parts of which length to split it into, where no extent has a divisor that
    would do, or some are symbolic. Along neighbors in memory, parts are rows of whole accesses. None where there would be too few
    parts. extents: typical ones."""
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


def _uses_index(g: Generic) -> bool:
    return any(o.operation.name in ("linalg.index", "tensor.extract") for o in g.block.operations)


def _splittable(g: Generic, loop: int) -> bool:
    """Returns whether every operand uses `loop` as the whole index of a dimension, or not at all."""
    for m in g.maps[: g.inputs]:
        for constant, terms in m:
            if any(i == loop for i, _ in terms) and (len(terms) > 1 or terms[0][1] != 1 or constant):
                return False
    return True
