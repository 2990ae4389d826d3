"""Schedules a space on a CPU: the axes that are vectorized, looped over or make the grid. Defines what GPU schedules share."""

import math
from collections import Counter
from dataclasses import dataclass, replace

from lamina.core.sizes import SizeLike, below, is_symbolic, most, typical
from lamina.schedules.base import SQUARE, BlockConfig
from lamina.schedules.cpu import SCAN_LANES, CpuConfig, choose, side

from ..ir.affine import Affine, Axis
from ..ir.expressions import Apply, Expr, Load, Reduce, Scan, walk
from ..trace.materialize import COST
from .coalesce import Merged, coalesce
from .nests import nests_of
from .scans import scanned_axis
from .space import Space

BITS = {"index": 64, "i1": 8, "f8E4M3FN": 8, "f8E5M2": 8}
ACCESS_BITS = 128  # the widest access of a GPU's thread
FEW = 64  # elements
SECTOR = 8  # f32 elements: the unit in which memory is read


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

    def meets(self, at: Affine, vector: Axis, step: int) -> bool:
        """Returns whether an index along `vector` starts whole accesses of `step` elements where blocks start."""
        rest = at + self.base * -1 + Affine.of(vector, -1)
        return rest.constant % step == 0 and all(c % step == 0 for _, c in rest.terms)


@dataclass(frozen=True)
class Schedule:
    """How a space maps to programs.

    vector    the axis whose neighbors share a block (None: scalar code)
    outer     row axes of the grid
    chunked   a row axis of which one program takes `chunk` iterations
    inner     row axes that a program loops over in full
    crossed   the axis that is contiguous in memory read across the vector axis; tiles of it are transposed through scratch memory
    shift     where rows start in the middle of accesses
    by_parts  whether every block lies in one part of a concatenation
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

    @property
    def grid_axes(self) -> tuple[tuple[Axis, SizeLike], ...]:
        """The axes that make the grid, the slowest first, and how many iterations of each a program takes."""
        axes: list[tuple[Axis, SizeLike]] = [(a, 1) for a in self.outer]
        if self.crossed is not None and self.crossed is not self.chunked:
            axes.append((self.crossed, SQUARE))
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


def operations(space: Space) -> int:
    """Returns the cost per element of all results, shared values counted once; of reductions alone, per reduced element."""
    roots = [r.expr for r in space.results]
    if space.reductions and not any(r.full for r in space.results):
        roots = [r.arg for r in space.reductions]
    seen = {e for root in roots for e in walk(root)}
    return sum(COST.get(e.op, 1) for e in seen if isinstance(e, Apply))


def per_element(space: Space) -> list[Expr]:
    """Returns the expressions computed for each element, without reductions and the widening of elements to the type of their
    sum."""
    seen, columns = space.expressions, set(space.columns)
    joins = {e.arg for e in seen if isinstance(e, Reduce) and isinstance(e.arg, Apply) and e.arg.op == "arith.extf"}
    return [e for e in seen if not isinstance(e, Reduce) and e not in joins and not (columns and columns.isdisjoint(e.free))]


def accumulators(space: Space, merged: Merged) -> int:
    """Returns the most reductions that one loop has."""
    return max((len(nest.reductions) for nest in nests_of(space, merged.columns, [])), default=0)


def by_stride(space: Space) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """Returns rows and columns from the largest stride to the smallest: in the results, or, where these have none, in the loads."""
    loads = [e.at for e in space.loads]
    stores = [r.at for r in space.results]

    def widest(a: Axis) -> int:
        return max((abs(typical(at.coefficient(a))) for at in stores), default=0) or max(
            (abs(typical(at.coefficient(a))) for at in loads), default=0
        )

    return tuple(sorted(space.rows, key=widest, reverse=True)), tuple(sorted(space.columns, key=widest, reverse=True))


def vector_axis(space: Space, merged: Merged) -> Axis | None:
    """Returns the axis to vectorize: the one along which loads and stores, counted twice, are most contiguous. Stores must have
    a stride of 0 or 1 along it. None where there is no such axis."""
    loads = [e.at.rename(merged.rename) for e in space.loads]
    stores = [r.at.rename(merged.rename) for r in space.results]
    scans = any(isinstance(e, Scan) for e in space.expressions)  # steps along a scanned column depend on each other
    candidates = [*([] if scans else reversed(merged.columns)), *reversed(merged.rows)]

    total = typical(math.prod(a.extent for a in (*merged.rows, *merged.columns)))

    def score(a: Axis) -> float:
        def step(at: Affine, k: float) -> float:
            c = abs(typical(at.coefficient(a)))
            touched = typical(math.prod(t.extent for t, _ in at.terms if isinstance(t, Axis)))  # a row result is stored rarely
            # share used of the memory fetched for neighbors; with stride 0 one element serves them all
            used = 1 / min(c, SECTOR) if c else 0.625
            return k * (2 * used - 1) * touched / max(total, 1)

        return sum(step(at, 1) for at in loads) + sum(step(at, 2) for at in stores) - (2 if below(a.extent, 8) else 0)

    best = max(candidates, key=score, default=None)
    if best is not None and any(at.coefficient(best) not in (0, 1) for at in stores):
        usable = [a for a in candidates if all(at.coefficient(a) in (0, 1) for at in stores)]
        best = max(usable, key=score, default=None)
    return best


def crossed_axis(space: Space, merged: Merged, vector: Axis | None) -> Axis | None:
    """Returns the row axis along which most elements that are loaded with a stride along `vector` are contiguous, where transposing
    tiles is worth it."""
    if vector is None or merged.columns or below(vector.extent, 8):
        return None
    along: Counter[Axis] = Counter()
    for e in space.loads:
        at = e.at.rename(merged.rename)
        inner = (a for a in merged.rows if a is not vector and not below(a.extent, 8) and at.coefficient(a) == 1)
        if crosses(e, at, vector) and (axis := next(inner, None)) is not None:
            along[axis] += typical(math.prod(t.extent for t, _ in at.terms if isinstance(t, Axis)))
    return max(along, key=along.__getitem__, default=None)


def crossing_loads(space: Space, plan: Schedule) -> list[Load]:
    """Returns the loads across the vector axis that a program with `crossed` transposes in tiles."""
    found = []
    for e in space.loads:
        at = e.at.rename(plan.merged.rename)
        if plan.vector is not None and crosses(e, at, plan.vector) and at.coefficient(plan.crossed) == 1:
            found.append(e)
    return found


def crosses(e: Load, at: Affine, vector: Axis) -> bool:
    """Returns whether an unguarded load at `at` has a stride along `vector`."""
    return at.coefficient(vector) not in (0, 1) and not e.guard and not at.opaque


def _extent(vector: Axis) -> int:
    """Returns the elements along the vector axis that blocks are chosen for: at least some, where they depend on the call."""
    return max(typical(vector.extent), FEW) if is_symbolic(vector.extent) else vector.extent


def schedule(space: Space, config: CpuConfig | None = None) -> Schedule:
    """Returns the schedule of a space; `config` overrides the cost model's choice."""
    merged = coalesce(*by_stride(space), space.places())
    scanned = scanned_axis(space, merged)
    vector = scanned if scanned is not None and not below(scanned.extent, SCAN_LANES) else vector_axis(space, merged)
    column_vector = vector in merged.columns
    widest = max((bits(e.dtype) for e in per_element(space)), default=32)
    crossed = crossed_axis(space, merged, vector) if config is None else None
    if crossed is not None and vector is not None:
        outer = tuple(a for a in merged.rows if a is not vector and a is not crossed)
        return Schedule(CpuConfig(lanes=side(typical(vector.extent))), merged, vector, outer, crossed, SQUARE, (vector,), crossed)
    if config is None:
        extent = _extent(vector) if vector else 1
        config = choose(operations(space), widest, extent, 0 if column_vector else accumulators(space, merged))
        if scanned is not None and vector is scanned:
            config = replace(config, lanes=SCAN_LANES)
    rows = [a for a in merged.rows if a is not vector] + ([vector] if vector in merged.rows else [])
    elements = math.prod(a.extent for a in merged.columns)
    work = 1 if elements == 0 else most(config.work // elements, 1)
    inner: list[Axis] = []
    covered: SizeLike = 1
    chunked: Axis | None = None
    chunk: SizeLike = 0
    while rows:
        a = rows.pop()
        wanted = -(-work // covered)
        if a is vector:
            wanted = -(-wanted // config.lanes) * config.lanes
        if typical(wanted) >= typical(a.extent) and not is_symbolic(a.extent):
            inner.insert(0, a)
            covered = covered * a.extent
            continue
        if is_symbolic(wanted) or wanted > 1:
            chunked, chunk = a, wanted
        else:
            rows.append(a)
        break
    return Schedule(config, merged, vector, tuple(rows), chunked, chunk, tuple(inner))
