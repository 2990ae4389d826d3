"""Finds the iteration space of a group: rows, columns and the expressions of its results over them.

Rows are the axes that every result and every reduction varies over; columns are those that reductions run over (and full results
vary over). Without reductions every axis is a row axis.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

from torch_mlir import ir

from lamina.core.sizes import Size

from ..ir.affine import Affine, Axis, SplitAxis, offset, refine
from ..ir.axes import cut_axes
from ..ir.expressions import Expr, InBounds, Load, Position, Reduce, Scatter, bounds_in, walk
from ..ir.guards import Bound
from ..ir.reading import SCAN, SORT, Generic, Index, Untraceable, element_type, ops_in, shape_of
from ..trace.stored import Pair, computed_shape
from ..trace.trace import Tracer

Strides = dict[ir.Value, tuple[int, ...]]


@dataclass(frozen=True)
class Result:
    """One result of a group.

    expr    its expression; a Scatter where values say where it is stored
    offset  of its element in memory
    full    whether it varies over rows and columns
    paired  whether `offset` counts pairs of elements, which lie side by side
    """

    expr: Expr
    offset: Affine
    full: bool
    dtype: str
    paired: bool = False


@dataclass(frozen=True)
class Space:
    """The iteration space of a kernel: its axes, the stored results, and the reductions that these need. lengths: see Merged."""

    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    results: tuple[Result, ...]
    reductions: tuple[Reduce, ...]  # operands first
    lengths: Mapping[Size, Size] = field(default_factory=dict)

    @cached_property
    def expressions(self) -> list[Expr]:
        """All expressions of the results, each once."""
        return list(dict.fromkeys(e for r in self.results for e in walk(r.expr)))

    @cached_property
    def loads(self) -> list[Load]:
        """All loads of the results, each once."""
        return [e for e in self.expressions if isinstance(e, Load)]

    @cached_property
    def combined(self) -> list[Scatter]:
        """The results that are combined with what their memory holds."""
        return [r.expr for r in self.results if isinstance(r.expr, Scatter) and r.expr.combine]

    def places(self) -> list[Affine]:
        """Returns every index expression of the group."""
        out = [r.offset for r in self.results]
        for e in self.expressions:
            if isinstance(e, Load | Position):
                out.append(e.offset if isinstance(e, Load) else e.index)
            if isinstance(e, Load | InBounds | Scatter):
                out += [b.index for b in e.guard]
        return out


def find_space(
    block: ir.Block,
    strides: Strides,
    result_strides: list[tuple[int, ...]],
    *,
    outs: list[ir.Value] | None = None,
    divide: bool = False,
    round_half: bool = False,
    pairs: bool = False,
) -> Space:
    """Returns the iteration space of a kernel function's block. Raises Untraceable if it has none.

    strides             of the block arguments
    result_strides      of the results
    outs                the results, where these are other values of the block than those it returns
    divide, round_half  see Tracer
    pairs               results that are pairs of neighbors count them
    """
    outs = list(list(block.operations)[-1].operands) if outs is None else outs
    generics = _reductions(block)
    scanned = _scanned(block)
    if scanned:
        full, dimension = scanned
        reduced = [d == dimension for d in range(len(full))]
    else:
        full, reduced = _full_shape(outs, generics)
    tracer = partial(Tracer, strides_of=lambda v: strides[v], divide=divide, round_half=round_half)
    stored = list(zip(outs, result_strides, strict=True))
    while True:
        axes = [Axis(n, f"{'c' if r else 'r'}{i}") for i, (n, r) in enumerate(zip(full, reduced, strict=True))]
        try:
            return _trace(axes, reduced, stored, tracer, pairs)
        except SplitAxis as s:
            if s.axis not in axes:
                raise Untraceable(outs[0], "an axis of a reduction of its own that a reshape splits") from None
            at = axes.index(s.axis)
            full = (*full[:at], full[at] // s.inner, s.inner, *full[at + 1 :])
            reduced = [*reduced[:at], reduced[at], reduced[at], *reduced[at + 1 :]]


def _scanned(block: ir.Block) -> tuple[tuple[int, ...], int] | None:
    """Returns the shape and the dimension of a block's scan, if it has one. Along a single element there is nothing to scan."""
    for op in ops_in(block, SCAN, SORT):
        shape, dimension = shape_of(op.results[0]), ir.IntegerAttr(op.attributes["dim"]).value
        if shape[dimension] != 1:
            return shape, dimension
    return None


def _reductions(block: ir.Block) -> list[Generic]:
    ops = ops_in(block, "linalg.generic")
    return [g for g in map(Generic.read, ops) if any(g.reduced)]


def _full_shape(outs: list[ir.Value], generics: list[Generic]) -> tuple[tuple[int, ...], list[bool]]:
    """Returns the coarsest common refinement of all full shapes, and which of its factors are reduced."""
    shapes = [computed_shape(v) for v in outs]
    if not generics:
        common = refine(shapes)
        if common is None or len({math.prod(s) for s in shapes}) != 1:
            raise Untraceable(outs[0], "results of different sizes")
        return common, [False] * len(common)
    first = generics[0]
    size = math.prod(first.extents)
    fulls = [g.extents for g in generics if math.prod(g.extents) == size]
    fulls += [s for s in shapes if math.prod(s) == size]
    common = refine(fulls)
    if common is None:
        raise Untraceable(outs[0], "results whose shapes do not fit the reduction's")
    reduced = _flags(common, first)
    rows = tuple(n for n, r in zip(common, reduced, strict=True) if not r)
    row_shapes = [s for s in shapes if math.prod(s) != size and math.prod(s) == math.prod(rows)]
    finer = refine([rows, *row_shapes])
    if finer is None:
        raise Untraceable(outs[0], "row results whose shapes do not fit the rows")
    return _merge(common, reduced, finer)


def _flags(factors: tuple[int, ...], g: Generic) -> list[bool]:
    """Returns which factors of the loops' space are reduced."""
    flags, left = [], [[n, r] for n, r in zip(g.extents, g.reduced, strict=True)]
    for f in factors:
        while left and left[0][0] == 1 and f != 1:
            left.pop(0)
        flags.append(bool(left[0][1]) if left else False)
        if left and f:
            left[0][0] //= f
        elif left:
            left.pop(0)
    return flags


def _merge(common: tuple[int, ...], reduced: list[bool], rows: tuple[int, ...]) -> tuple[tuple[int, ...], list[bool]]:
    """Returns `common` with its row factors replaced by the finer `rows`, and which factors are reduced."""
    out: list[int] = []
    flags: list[bool] = []
    fine = list(rows)
    for n, r in zip(common, reduced, strict=True):
        if r:
            out.append(n)
            flags.append(True)
            continue
        while n not in (0, 1):
            piece = fine.pop(0)
            if piece not in (0, 1):
                out.append(piece)
                flags.append(False)
            n //= piece if piece != 0 else 1
        if n == 0:
            out.append(0)
            flags.append(False)
    return tuple(out), flags


def index_over_axes(shape: tuple[int, ...], axes: list[Axis]) -> tuple[Affine, ...] | None:
    """Returns the index of a row-major space of `shape` that runs over `axes` in order; None if an axis spans dimensions."""
    out, rest = [], [a for a in axes if a.extent != 1]
    for n in shape:
        at, left = Affine(), n
        while left not in (0, 1) and rest and rest[0].extent and left % rest[0].extent == 0:
            axis = rest.pop(0)
            left //= axis.extent
            at = at + Affine.of(axis, left)
        if left not in (0, 1):
            return None
        out.append(at)
    return None if rest else tuple(out)


def _trace(
    axes: list[Axis],
    reduced: list[bool],
    stored: list[tuple[ir.Value, tuple[int, ...]]],
    tracer_of: Callable[..., Tracer],
    pairs: bool,
) -> Space:
    """Traces the results over these axes. Raises SplitAxis if an axis has to be two, Untraceable if nothing helps.

    stored     the results, with their strides
    tracer_of  makes a tracer whose reductions run over these `columns`
    pairs      see find_space
    """
    rows = [a for a, r in zip(axes, reduced, strict=True) if not r]
    columns = [a for a, r in zip(axes, reduced, strict=True) if r]
    fresh: dict[ir.Operation, tuple[tuple[Affine, ...], tuple[Axis, ...]]] = {}

    def columns_of(g: Generic) -> tuple[tuple[Affine, ...], tuple[Axis, ...]]:
        """Returns the index and the axes of a reduction's columns."""
        extents = tuple(n for n, r in zip(g.extents, g.reduced, strict=True) if r)
        index = index_over_axes(extents, columns) if math.prod(extents) == math.prod(a.extent for a in columns) else None
        if index is not None:
            return index, tuple(columns)
        if g.op not in fresh:
            own = tuple(Axis(n, f"k{i}") for i, n in enumerate(extents))
            fresh[g.op] = tuple(Affine.of(a) for a in own), own
        return fresh[g.op]

    tracer = tracer_of(columns=columns_of)
    places = [_place(v, axes, rows, bool(columns)) for v, _ in stored]
    found = [_result(tracer, v, s, *at, pairs) if at else None for (v, s), at in zip(stored, places, strict=True)]
    bounds = bounds_in(e for r in found if r for e in walk(r.expr)) if None in found else []
    results = [r or _cut_result(tracer, v, s, axes, bounds) for r, (v, s) in zip(found, stored, strict=True)]
    reductions = list(dict.fromkeys(e for r in results for e in walk(r.expr) if isinstance(e, Reduce)))
    inner = frozenset(columns)
    for r in reductions:
        if r.free & inner:
            raise Untraceable(stored[0][0], "a reduction that has to be computed again for every column")
    return Space(tuple(rows), tuple(columns), tuple(results), tuple(reductions))


def _place(v: ir.Value, axes: list[Axis], rows: list[Axis], full: bool) -> tuple[Index, bool] | None:
    """Returns the index of a result, and whether it varies over rows and columns; None if it runs over neither the full space nor
    its rows. full: there are columns."""
    shape = computed_shape(v)
    index = index_over_axes(shape, axes)
    if index is not None and math.prod(shape) == math.prod(a.extent for a in axes):
        return index, full
    index = index_over_axes(shape, rows)
    return None if index is None else (index, False)


def _cut_result(tracer: Tracer, v: ir.Value, strides: tuple[int, ...], axes: list[Axis], bounds: list[Bound]) -> Result:
    """Returns a result that runs over the full space up to one of these bounds, where the padding of a reduction begins. Raises
    Untraceable if it does not."""
    shape = tuple(n for n in computed_shape(v) if n != 1)
    for bound in bounds:
        count = cut_axes(axes, bound)
        if count and shape[:1] == (bound.high,) and (inner := index_over_axes(shape[1:], axes[count:])) is not None:
            own = iter((bound.index, *inner))
            index = tuple(next(own) if n != 1 else Affine() for n in computed_shape(v))
            value = tracer.element(v, index, (bound,), root=True)
            at = offset(index, strides)
            return Result(tracer.make.scatter(value, at, (bound,), "", frozenset()), at, True, element_type(v))
    raise Untraceable(v, "a result that runs over neither rows nor the full space")


def _result(tracer: Tracer, v: ir.Value, strides: tuple[int, ...], index: Index, full: bool, pairs: bool) -> Result:
    """Returns the expression and the place of a result. full: whether it varies over rows and columns."""
    expr, at = tracer.result(v, index, strides)
    steps = (at.constant, *(c for _, c in at.terms))
    paired = pairs and isinstance(expr, Pair) and expr.step == 1 and not any(c % 2 for c in steps)
    if paired:
        at = Affine(at.constant // 2, tuple((t, c // 2) for t, c in at.terms))
    return Result(expr, at, full, element_type(v), paired)
