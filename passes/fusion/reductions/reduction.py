"""Reductions that are worth splitting, and how many parts their loops of known sizes get."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch_mlir import ir

from lamina.core.sizes import SizeLike, is_symbolic, typical

from ...ir.reading import Generic
from .joined_loops import join_loops

BLOCK = 128  # columns of 32-bit elements that one program sums, and rows of them that are worth a part
LEAST = 8  # parts that are worth a second kernel
ENOUGH = 64  # parts that fill a GPU where several CTAs walk over each
ROW = 16  # elements of a row at least where its own result is less to store than the row is to read again
LONG = 8192  # elements of a part at least where several loops have parts


@dataclass(frozen=True)
class SplittableReduction:
    """A reduction that is worth splitting.

    g         its op
    combine   the op that combines two elements, such as "arith.addf"
    loops     reduced loops that may have parts
    deferred  other reduced loops, whose iterations have a partial result each
    order     all loops, in the order of the partial results in memory
    inner     loops along neighbors in memory
    together  results of one program: 1 where it walks along neighbors
    at_once   neighbors in memory that a program reads at once
    limit     how many results it has at least if it is not worth splitting
    """

    g: Generic
    combine: str
    loops: list[int]
    deferred: list[int]
    order: list[int]
    inner: set[int]
    together: int
    at_once: int
    limit: int

    @property
    def most_parts(self) -> SizeLike:
        """How many parts are long enough to be worth it, where a call decides."""
        return -(-self.reduced // BLOCK) if self.together > 1 else self.reduced // self.at_once

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

    def joined(self, replaced: list[ir.Operation]) -> "SplittableReduction":
        """Reduces adjacent loops as one, where every operand's elements are in their order. replaced: see `join_loops`."""
        g, numbers = join_loops(self.g, self.loops, replaced)
        loops, deferred, order = ([*dict.fromkeys(numbers[i] for i in part)] for part in (self.loops, self.deferred, self.order))
        return replace(self, g=g, loops=loops, deferred=deferred, order=order, inner={numbers[i] for i in self.inner})


def rows_like(others: Sequence[tuple[bool, ...]], reduction: SplittableReduction, max_parts: int) -> dict[int, SizeLike]:
    """Returns a part for each row of another reduction, so that one kernel computes both; none where there are too few rows, or
    more than `max_parts` of them that are short."""
    fitting: list[tuple[int, dict[int, SizeLike]]] = []
    for reduced in sorted(others):
        rows = {i: reduction.g.extents[i] for i in reduction.loops if not reduced[i]}
        count = typical(math.prod(rows.values()))
        reduces_less = all(mine or not other for mine, other in zip(reduction.g.reduced, reduced, strict=True))
        if reduces_less and count >= ENOUGH and (count <= max_parts or typical(reduction.reduced) >= count * ROW):
            fitting.append((count, rows))
    return max(fitting, key=lambda found: found[0], default=(0, {}))[1]


def outer_parts(reduction: SplittableReduction, max_parts: int) -> dict[int, int]:
    """Returns the parts of the first loop that makes enough, and of the loops behind it where parts are long. A loop along
    neighbors in memory is taken first only where no other does, in pieces that are worth a part."""
    loops = sorted(reduction.loops, key=lambda i: i in reduction.inner)
    for position, loop in enumerate(loops):
        n = reduction.g.extents[loop]
        if (parts := _divisor(n, min(max_parts, n // BLOCK) if loop in reduction.inner else max_parts)) < LEAST:
            continue
        parts_of = {loop: parts}
        for behind in loops[position + 1 :]:
            few = min(max_parts // parts, typical(reduction.reduced) // (parts * LONG))
            if parts_of[loop] < reduction.g.extents[loop] or few < 2:
                break
            loop, whole = behind, BLOCK if behind in reduction.inner else 1
            n = reduction.g.extents[behind]
            parts_of[behind] = _divisor(n // whole, few) if n % whole == 0 else 1
            parts *= parts_of[behind]
        return parts_of
    return {}


def adjacent_parts(reduction: SplittableReduction, max_parts: int) -> dict[int, int]:
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


def even_parts(reduction: SplittableReduction, max_parts: int) -> tuple[int, int, int] | None:
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
