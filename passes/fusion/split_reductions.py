"""lamina-split-reductions: splits reductions with few results into partial reductions that run in parallel, and their sum."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from torch_mlir import ir

from lamina.core.sizes import SizeLike, is_symbolic, maximum, minimum, typical, upper_end

from ..infra.base import Pass
from ..ir.reading import REDUCERS, Generic, element_bits, ops_in, producer
from ..ir.rewriting import function_bodies
from .joined_loops import join_loops
from .nested_reductions import merge_nested
from .partial_reductions import reduce_in_two, split_loops
from .ragged_parts import ragged_parts, split_ragged
from .reduced_memory import ReducedMemory
from .repeated_terms import reduce_repeated_once

BLOCK = 128  # columns of 32-bit elements that one program sums, and rows of them that are worth a part
LEAST = 8  # parts that are worth a second kernel
ENOUGH = 64  # parts that fill a GPU where several CTAs walk over each
LONG = 16384  # elements of a part at least where several loops have parts
FEWER = 64  # times that a call may have more elements than the one that was traced, where a second kernel costs little
LONGER = 8  # times that a result may have more elements in a call, where parts take two kernels more


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
    columns   the same for a reduction across them, or of rows that lie in pieces, such as the windows of a pooling or the channels
              of several images, which no cluster of CTAs shares (0: as rows)
    parts     partial results of one result, at most
    programs  programs that there is room for: this limits the parts, as a program yields one row's result or those of BLOCK columns
    ragged    symbolic loops get as many parts as suit the sizes of each call, the last of which is shorter: adjacent ones become
              one loop first, where the elements lie in its order. Along neighboring elements in memory, the other parts are
              multiples of this many bytes: what a program reads at once (0: not so)
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
        for block in function_bodies(module):
            merge_nested(block)
            reduce_repeated_once(block)
            memory = ReducedMemory(block, self.columns > 0)
            ops = ops_in(block, "linalg.generic")
            kept = {(g.extents, g.reduced) for op in ops if (g := memory.generic(op)) is not None and any(g.reduced)}
            for op in ops:
                self._split(op, memory, kept)

    def _split(
        self, op: ir.Operation, memory: ReducedMemory, reductions: set[tuple[tuple[SizeLike, ...], tuple[bool, ...]]]
    ) -> None:
        g = memory.generic(op)
        reduction = self._reduction(g, memory) if g is not None and any(g.reduced) and len(op.results) == 1 else None
        if reduction is None:
            return
        memory.forget(op)
        if self._is_ragged(reduction.g):
            self._split_ragged(reduction)
        else:
            self._split_evenly(reduction, [reduced for extents, reduced in reductions if extents == reduction.g.extents])

    def _is_ragged(self, g: Generic) -> bool:
        return bool(self.ragged) and is_symbolic(g.extents)

    def _reduction(self, g: Generic, memory: ReducedMemory) -> "_Reduction | None":
        """Returns a reduction that is worth splitting; None for others."""
        extents = tuple(map(typical, g.extents))
        size, results = math.prod(extents), math.prod(n for n, r in zip(extents, g.reduced, strict=True) if not r)
        combine = producer(g.yields[0])
        each = size // max(results, 1) * (LONGER if self._is_ragged(g) else 1)
        long = each * (memory.overread(g) if self.columns else 1) >= self.elements // LEAST
        limit = self.columns if self.columns and memory.pieces(g, long) else self.rows
        few = size < (self.elements // FEWER if self._is_ragged(g) else self.elements)
        reduced = math.prod(n for n, r in zip(g.extents, g.reduced, strict=True) if r)
        bounded = self._is_ragged(g) and upper_end(reduced) <= 2 * BLOCK
        if results >= limit or few or bounded or combine is None or combine.name not in REDUCERS:
            return None
        if g.block.arguments[g.inputs] not in list(combine.operands) or _uses_index(g):
            return None
        plain = [i for i, r in enumerate(g.reduced) if r and _splittable(g, i)]
        short = memory.short_pieces(g) if long and self.columns else []
        deferred = short if set(short) <= set(plain) else []
        together = 1 if memory.along(g) and not deferred else BLOCK * max(1, 32 // min(map(element_bits, g.op.operands)))
        at_once = self.ragged * 8 // memory.narrowest(g)
        loops = [i for i in plain if i not in deferred]
        return _Reduction(g, combine.name, loops, deferred, memory.order(g), memory.inner_loops(g), together, at_once)

    def _split_evenly(self, reduction: "_Reduction", others: Sequence[tuple[bool, ...]]) -> None:
        """Splits loops into equal parts. others: which loops other reductions of as many iterations reduce."""
        g, results = reduction.g, max(typical(reduction.results), 1)
        max_parts = min(self.parts, self.programs * reduction.together // results)
        max_parts = max_parts if reduction.along else min(max_parts, typical(math.prod(g.extents)) // results // BLOCK)
        known = not is_symbolic(g.extents)
        parts = (
            (
                _parts_like(others, reduction, max_parts) or _outer_parts(reduction, max_parts)
                if reduction.along
                else _adjacent_parts(reduction, max_parts)
            )
            if known
            else {}
        )
        if math.prod(parts.values()) < LEAST:
            even = _even_parts(reduction, max_parts)
            if even is None:
                return
            loop, count, length = even
            parts, n = {loop: count}, g.extents[loop]
            whole, rest = (count * length, n - count * length) if known else (n // count * count, n % count)
            if rest != 0:
                g = reduce_in_two(g, loop, whole, rest, reduction.combine)
        split_loops(g, parts, reduction.deferred, reduction.order, reduction.combine)

    def _split_ragged(self, reduction: "_Reduction") -> None:
        """Splits the outermost loops in memory, of which all but the last that it takes a whole: a part for each iteration."""
        if not reduction.loops or self.programs * reduction.together // max(typical(reduction.results), 1) < LEAST:
            return
        reduction = reduction.joined()
        g, loops = reduction.g, [i for i in reduction.order if i in reduction.loops]
        worth = -(-reduction.reduced // BLOCK) if reduction.together > 1 else reduction.reduced // reduction.at_once
        wanted = minimum(self.parts, self.programs * reduction.together // maximum(1, reduction.results), worth)
        whole: list[int] = []
        for loop in loops[:-1]:
            if typical(math.prod(g.extents[i] for i in (*whole, loop))) > typical(wanted):
                break
            whole.append(loop)
        loop = loops[len(whole)]
        n, multiple = g.extents[loop], reduction.at_once if loop in reduction.inner else 1
        left = wanted // math.prod(g.extents[i] for i in whole) if whole else wanted
        left = minimum(left, n // multiple) if multiple > 1 else left  # others would be empty
        split_ragged(g, loop, *ragged_parts(n, left, multiple), [*reduction.deferred, *whole], reduction.order, reduction.combine)


@dataclass(frozen=True)
class _Reduction:
    """A reduction that is worth splitting.

    g         its op
    combine   the op that combines two elements, such as "arith.addf"
    loops     reduced loops that may have parts
    deferred  other reduced loops, whose iterations have a partial result each
    order     all loops, in the order of the partial results in memory
    inner     loops along neighbors in memory
    together  results of one program: 1 where it walks along neighbors
    at_once   neighbors in memory that a program reads at once
    """

    g: Generic
    combine: str
    loops: list[int]
    deferred: list[int]
    order: list[int]
    inner: set[int]
    together: int
    at_once: int

    @property
    def along(self) -> bool:
        """Whether programs walk along neighbors in memory."""
        return self.together == 1

    @property
    def results(self) -> SizeLike:
        """The number of partial results of each part."""
        return math.prod(n for i, n in enumerate(self.g.extents) if not self.g.reduced[i] or i in self.deferred)

    @property
    def reduced(self) -> SizeLike:
        """The number of elements that are reduced to each result, without parts."""
        return math.prod(n for i, n in enumerate(self.g.extents) if self.g.reduced[i] and i not in self.deferred)

    def joined(self) -> "_Reduction":
        """Reduces adjacent loops as one, where every operand's elements are in their order."""
        g, numbers = join_loops(self.g, self.loops)
        loops, deferred, order = ([*dict.fromkeys(numbers[i] for i in part)] for part in (self.loops, self.deferred, self.order))
        return replace(self, g=g, loops=loops, deferred=deferred, order=order, inner={numbers[i] for i in self.inner})


def _parts_like(others: Sequence[tuple[bool, ...]], reduction: _Reduction, max_parts: int) -> dict[int, int]:
    """Returns a part for each row of another reduction, so that one kernel computes both; none where there are too few or too many
    rows."""
    fitting: list[dict[int, int]] = []
    for reduced in sorted(others):
        rows = {i: reduction.g.extents[i] for i in reduction.loops if not reduced[i]}
        reduces_less = all(mine or not other for mine, other in zip(reduction.g.reduced, reduced, strict=True))
        if reduces_less and ENOUGH <= math.prod(rows.values()) <= max_parts:
            fitting.append(rows)
    return max(fitting, key=lambda rows: math.prod(rows.values()), default={})


def _outer_parts(reduction: _Reduction, max_parts: int) -> dict[int, int]:
    """Returns the parts of the first loop that makes enough, and, where these are few, of the loops behind it. A loop along
    neighbors in memory is taken only where no other does, in pieces that are worth a part."""
    loops = sorted(reduction.loops, key=lambda i: i in reduction.inner)
    for position, loop in enumerate(loops):
        n = reduction.g.extents[loop]
        if (parts := _divisor(n, min(max_parts, n // BLOCK) if loop in reduction.inner else max_parts)) < LEAST:
            continue
        parts_of = {loop: parts}
        for behind in loops[position + 1 :]:
            few = min(max_parts // parts, typical(reduction.reduced) // (parts * LONG))
            if parts >= ENOUGH or parts_of[loop] < reduction.g.extents[loop] or behind in reduction.inner or few < 2:
                break
            loop, parts_of[behind] = behind, _divisor(reduction.g.extents[behind], few)
            parts *= parts_of[behind]
        return parts_of
    return {}


def _adjacent_parts(reduction: _Reduction, max_parts: int) -> dict[int, int]:
    """Returns the parts of adjacent loops, up to `max_parts` in all, from the outermost loops that make enough, as an extent may be
    prime."""
    for first in range(len(reduction.loops)):
        parts, left = {}, max_parts
        for loop in reduction.loops[first:]:
            parts[loop] = _divisor(reduction.g.extents[loop], left)
            left //= parts[loop]
            if parts[loop] < reduction.g.extents[loop]:
                break
        if math.prod(parts.values()) >= LEAST:
            return {loop: n for loop, n in parts.items() if n > 1}
    return {}


def _even_parts(reduction: _Reduction, max_parts: int) -> tuple[int, int, int] | None:
    """Returns the longest loop, and how many equal parts of which length to split it into, where no extent has a divisor that
    would do, or some are symbolic. Along neighbors in memory, parts are rows of whole accesses. None if there would be too few
    parts."""
    loops, inner, extents = reduction.loops, reduction.inner, tuple(map(typical, reduction.g.extents))
    symbolic = is_symbolic(reduction.g.extents)
    if symbolic:  # of an outer loop, parts are contiguous where the whole is
        loops = [i for i in loops if i not in inner and extents[i] >= LEAST] or loops
    loop = max(loops, key=lambda i: (i not in inner or extents[i] >= LEAST * BLOCK, extents[i]), default=None)
    if loop is None or max_parts < LEAST:
        return None
    n = extents[loop]
    if symbolic:  # what is left, of fewer iterations than there are parts, takes no longer than a part
        max_parts = min(max_parts, max(LEAST, math.isqrt(n)))
    length = -(-n // (max_parts * BLOCK)) * BLOCK if loop in inner else max(1, n // max_parts)
    parts = min(max_parts, n // length)
    if symbolic and parts > LEAST:  # the schedule of the rest goes by what the traced call leaves: as much as may be
        parts = max(range(max(LEAST, 3 * parts // 4), parts + 1), key=lambda p: n % p)
    return (loop, parts, length) if parts >= LEAST else None


def _divisor(n: int, limit: int) -> int:
    """Returns the largest divisor of `n` up to `limit`."""
    return max((p for p in range(1, min(limit, n) + 1) if n % p == 0), default=1)


def _uses_index(g: Generic) -> bool:
    return any(o.operation.name in ("linalg.index", "tensor.extract") for o in g.block.operations)


def _splittable(g: Generic, loop: int) -> bool:
    """Returns whether every operand uses `loop` as the whole index of a dimension, or not at all."""
    for m in g.maps[: g.inputs]:
        for constant, terms in m:
            if any(i == loop for i, _ in terms) and (len(terms) > 1 or terms[0][1] != 1 or constant):
                return False
    return True
