"""lamina-split-reductions: splits reductions with few results into partial reductions that run in parallel, and their sum."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.core.sizes import SizeLike, is_symbolic, maximum, minimum, typical, upper_end

from ...infra.base import Pass
from ...ir.reading import REDUCERS, Generic, element_bits, ops_in, producer
from ...ir.rewriting import function_bodies
from ..scales import Condition, note_outgrown
from .nested_reductions import merge_nested
from .partial_reductions import reduce_in_two, split_loops
from .ragged_parts import ragged_parts, split_ragged
from .reduced_memory import ReducedMemory
from .reduction import BLOCK, ENOUGH, LEAST, SplittableReduction, adjacent_parts, even_parts, outer_parts, rows_like
from .repeated_terms import reduce_repeated_once

LARGER = 4  # times that a call may have more to reduce than the one that was traced, for parts to be worth it
SCALE = 16  # times that a size may differ from where another division of the work begins to be better
LONGER = 8  # times that a result may have more elements in a call, where parts take two kernels more


@dataclass(frozen=True)
class SplitReductions(Pass):
    """Split reductions to few results in two, so that they can run in parallel.

    A reduction with few results over at least `elements` is split: its outermost reduced loop of n becomes (parts, n / parts),
    where `parts` is the largest allowed divisor of n; a second op reduces the partial results. The order of additions depends on
    the shape alone, never on the number of threads.

    - A reduction of another's results is first merged with it, and a loop along which nothing varies becomes a product with its
      count.
    - Several loops may be split where neighbors in memory are not reduced together: columns, the channels of a channels-last image.
    - Each row is a part where another reduction of as many iterations has rows, so that one kernel reads it once for both.
    - Where few neighbors are reduced together, between elements of other results (the channels of a group of a channels-last
      image), each is reduced as a column first.
    - Of symbolic sizes, those of the call that was traced decide. What the number of parts leaves of a loop is reduced by itself,
      unless parts are `ragged`. Calls of another scale, for which the decision would be another one, are noted in `graph.outgrown`
      on the module.

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
            replaced: list[ir.Operation] = []
            for op in ops:
                note_outgrown(module, self._split(op, memory, kept, replaced))
            for op in reversed(replaced):  # only now, as `memory` knows values by where they are in this process's memory
                op.erase()

    def _split(
        self,
        op: ir.Operation,
        memory: ReducedMemory,
        reductions: set[tuple[tuple[SizeLike, ...], tuple[bool, ...]]],
        replaced: list[ir.Operation],
    ) -> Sequence[Sequence[Condition]]:
        """Splits a reduction that is worth it. Returns which calls are of another scale (see note_outgrown). replaced: see
        join_loops."""
        g = memory.generic(op)
        if g is None or not any(g.reduced) or len(op.results) != 1:
            return ()
        little = not self._is_ragged(g) and typical(math.prod(g.extents)) < self.elements
        least_long = self._least_long(g, memory)
        long = typical(math.prod(g.extents)) // max(typical(_results(g)), 1) >= least_long
        if little or (reduction := self._reduction(g, memory, long)) is None:
            return ()
        scales = self._scales(reduction) if self._is_ragged(g) else []
        if self._is_ragged(g) and not long and not self._is_worth_it(reduction):
            scales = [*scales, *self._scales_of_pieces(reduction, memory, least_long)]
        if not self._is_worth_it(reduction):
            return scales
        memory.forget(op)
        others = [reduced for extents, reduced in reductions if extents == reduction.g.extents]
        if rows := rows_like(others, reduction, self._max_parts(reduction)) if reduction.along else {}:
            few = (math.prod(rows.values()), ENOUGH // SCALE)
            total = split_loops(g, {}, [*reduction.deferred, *rows], reduction.order, reduction.combine)
            outgrown = [[few, (-math.prod(g.extents), -self.elements)]]
            return [*outgrown, *self._split(total, memory, reductions, replaced)]
        if self._is_ragged(reduction.g):
            self._split_ragged(reduction, replaced)
        else:
            self._split_evenly(reduction)
        return scales

    def _max_parts(self, reduction: SplittableReduction) -> int:
        return min(self.parts, self.programs * reduction.together // max(typical(reduction.results), 1))

    def _is_ragged(self, g: Generic) -> bool:
        return bool(self.ragged) and is_symbolic(g.extents)

    def _is_worth_it(self, reduction: SplittableReduction) -> bool:
        """Returns whether to split a reduction for its typical sizes. Where calls decide, a few times as much as there typically is
        may be worth it."""
        size = typical(math.prod(reduction.g.extents))
        if not self._is_ragged(reduction.g):
            return typical(_results(reduction.g)) < reduction.limit and size >= self.elements
        few = typical(reduction.results) < self._most_results(reduction)
        return few and size >= self.elements // LARGER and typical(reduction.most_parts) >= LEAST // LARGER

    def _most_results(self, reduction: SplittableReduction) -> int:
        """Returns how many partial results of each part there are at least, where there is no room for enough parts or no need."""
        return min(reduction.limit, self.programs * reduction.together // LEAST + 1)

    def _scales(self, reduction: SplittableReduction) -> Sequence[Sequence[Condition]]:
        """Returns which calls a reduction should be split for although it is not for the typical sizes, or the other way round."""
        if not self._is_worth_it(reduction):
            return self._split_scales(reduction)
        size, results, parts = math.prod(reduction.g.extents), reduction.results, reduction.most_parts
        return [[(-results, -self._most_results(reduction) * SCALE)], [(size, self.elements // SCALE)], [(parts, 1)]]

    def _split_scales(self, reduction: SplittableReduction) -> Sequence[Sequence[Condition]]:
        """Returns which calls a reduction should be split for."""
        size, results, parts = math.prod(reduction.g.extents), reduction.results, reduction.most_parts
        most = self._most_results(reduction)
        fewer = most // SCALE if typical(results) >= most else most - 1
        return [[(-size, -self.elements), (-parts, -LEAST), (results, fewer)]]

    def _scales_of_pieces(
        self, reduction: SplittableReduction, memory: ReducedMemory, least_long: int
    ) -> Sequence[Sequence[Condition]]:
        """Returns which calls a reduction should be split for as its rows lie in pieces and are long."""
        g, pieces = reduction.g, self._reduction(reduction.g, memory, True)
        if pieces is None or pieces.limit <= reduction.limit:
            return []
        is_long = (least_long * _results(g) - math.prod(g.extents), 0)
        return [[*group, is_long] for group in self._split_scales(pieces)]

    def _least_long(self, g: Generic, memory: ReducedMemory) -> int:
        """Returns from how many elements on the parts of a row that lies in pieces are worth a second kernel."""
        overread = memory.overread(g) if self.columns else 1
        return -(-self.elements // (LEAST * (LONGER if self._is_ragged(g) else 1) * overread))

    def _reduction(self, g: Generic, memory: ReducedMemory, long: bool) -> SplittableReduction | None:
        """Returns a reduction that can be split; None for others.

        long  whether parts of rows that lie in pieces are worth a second kernel
        """
        combine = producer(g.yields[0])
        if combine is None or combine.name not in REDUCERS or _uses_index(g):
            return None
        reduced = math.prod(n for n, r in zip(g.extents, g.reduced, strict=True) if r)
        bounded = self._is_ragged(g) and upper_end(reduced) <= 2 * BLOCK
        if bounded or g.block.arguments[g.inputs] not in list(combine.operands):
            return None
        limit = self.columns if self.columns and memory.pieces(g, long) else self.rows
        plain = [i for i, r in enumerate(g.reduced) if r and _splittable(g, i)]
        short = memory.short_pieces(g) if long and self.columns else []
        deferred = short if set(short) <= set(plain) else []
        together = 1 if memory.along(g) and not deferred else BLOCK * max(1, 32 // min(map(element_bits, g.op.operands)))
        at_once = self.ragged * 8 // memory.narrowest(g)
        loops = [i for i in plain if i not in deferred]
        order, inner = memory.order(g), memory.inner_loops(g)
        return SplittableReduction(g, combine.name, loops, deferred, order, inner, together, at_once, limit)

    def _split_evenly(self, reduction: SplittableReduction) -> None:
        """Splits loops into equal parts."""
        g, results, max_parts = reduction.g, max(typical(reduction.results), 1), self._max_parts(reduction)
        max_parts = max_parts if reduction.along else min(max_parts, typical(math.prod(g.extents)) // results // BLOCK)
        known = not is_symbolic(g.extents)
        parts: dict[int, int] = {}
        if known and reduction.along:
            parts = outer_parts(reduction, max_parts)
        elif known:
            parts = adjacent_parts(reduction, max_parts)
        if math.prod(parts.values()) < LEAST:
            even = even_parts(reduction, max_parts)
            if even is None:
                return
            loop, count, length = even
            parts, n = {loop: count}, g.extents[loop]
            whole, rest = (count * length, n - count * length) if known else (n // count * count, n % count)
            if rest != 0:
                g = reduce_in_two(g, loop, whole, rest, reduction.combine)
        split_loops(g, parts, reduction.deferred, reduction.order, reduction.combine)

    def _split_ragged(self, reduction: SplittableReduction, replaced: list[ir.Operation]) -> None:
        """Splits the outermost loops in memory, of which all but the last that it takes a whole: a part for each iteration."""
        if not reduction.loops:
            return
        reduction = reduction.joined(replaced)
        g, loops = reduction.g, [i for i in reduction.order if i in reduction.loops]
        programs = self.programs * reduction.together // maximum(1, reduction.results)
        wanted = minimum(self.parts, programs, reduction.most_parts)
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


def _results(g: Generic) -> SizeLike:
    return math.prod(n for n, r in zip(g.extents, g.reduced, strict=True) if not r)


def _uses_index(g: Generic) -> bool:
    return any(o.operation.name in ("linalg.index", "tensor.extract") for o in g.block.operations)


def _splittable(g: Generic, loop: int) -> bool:
    """Returns whether every operand uses `loop` as the whole index of a dimension, or not at all."""
    for m in g.maps[: g.inputs]:
        for constant, terms in m:
            if any(i == loop for i, _ in terms) and (len(terms) > 1 or terms[0][1] != 1 or constant):
                return False
    return True
