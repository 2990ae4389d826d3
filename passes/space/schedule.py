"""The schedule of a kernel: how its iteration space maps to programs and blocks. `forms` and each target's module choose it."""

import math
from dataclasses import dataclass

from lamina.core.sizes import SizeLike
from lamina.schedules.base import TILE_SIDE, BlockConfig

from ..ir.affine import Affine, Axis
from ..ir.expressions import Apply, walk
from ..trace.costs import COST
from .coalesce import Merged
from .space import Space

BITS = {"index": 64, "i1": 8, "f8E4M3FN": 8, "f8E5M2": 8}
ACCESS_BITS = 128  # the widest access of a GPU's thread


def bits(dtype: str) -> int:
    """Returns the bits of an element type; of an index 64, of a bool 8."""
    return BITS.get(dtype) or int("".join(c for c in dtype if c.isdigit()))


@dataclass(frozen=True)
class Shift:
    """Rows that start anywhere in memory, read in blocks that start at whole accesses: lane l is column l - base % width.

    base   the first element of a row, over the merged axes
    width  elements of the widest accesses
    """

    base: Affine
    width: int

    def step(self, width_bits: int) -> int:
        """Returns the elements of one access to elements of `width_bits` bits."""
        return min(self.width, ACCESS_BITS // width_bits)

    def meets(self, index: Affine, vector: Axis, step: int) -> bool:
        """Returns whether an index along `vector` starts whole accesses of `step` elements where blocks start."""
        rest = index + self.base * -1 + Affine.of(vector, -1)
        return rest.constant % step == 0 and all(c % step == 0 for _, c in rest.terms)


@dataclass(frozen=True)
class Schedule:
    """The mapping of an iteration space to programs.

    vector    the axis whose neighbors share a block (None: scalar code)
    outer     row axes of the grid
    chunked   a row axis of which one program takes `chunk` iterations
    grouped   row axes around `chunked`, and how many iterations of each a program takes: several where those of `chunked` are few
    inner     row axes that a program loops over in full
    crossed   the axis that is contiguous in memory read across the vector axis; tiles of it are transposed through scratch memory
    shift     where rows start in the middle of accesses
    by_parts  whether every block lies in one part of a concatenation
    divided   one of `inner`, whose regions get loops of their own within a block
    tall      how many iterations of `crossed` a tile has
    """

    config: BlockConfig
    merged: Merged
    vector: Axis | None
    outer: tuple[Axis, ...]
    chunked: Axis | None
    chunk: SizeLike
    inner: tuple[Axis, ...]
    crossed: Axis | None = None
    shift: Shift | None = None
    by_parts: bool = False
    tall: int = TILE_SIDE
    grouped: tuple[tuple[Axis, SizeLike], ...] = ()
    divided: Axis | None = None

    @property
    def grid_axes(self) -> tuple[tuple[Axis, SizeLike], ...]:
        """The axes that make the grid, the slowest first, and how many iterations of each a program takes."""
        axes: list[tuple[Axis, SizeLike]] = [(a, 1) for a in self.outer]
        if self.crossed is not None and self.crossed is not self.chunked:
            axes.append((self.crossed, self.tall))
        axes += self.grouped
        if self.chunked is not None:
            axes.append((self.chunked, self.chunk))
        return tuple(axes)

    @property
    def grid(self) -> SizeLike:
        """The number of programs."""
        return math.prod(-(-a.extent // chunk) for a, chunk in self.grid_axes)

    @property
    def column_vector(self) -> bool:
        """Whether the vector axis is a column."""
        return self.vector in self.merged.columns


def operation_cost(space: Space) -> int:
    """Returns the cost per element of all results, shared values counted once; of reductions alone, per reduced element."""
    roots = [r.expr for r in space.results]
    if space.reductions and not any(r.full for r in space.results):
        roots = [r.arg for r in space.reductions]
    seen = {e for root in roots for e in walk(root)}
    return sum(COST.get(e.op, 1) for e in seen if isinstance(e, Apply))
