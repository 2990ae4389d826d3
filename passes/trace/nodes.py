"""Traces materialized values: the nodes that `grouping` merges."""

from dataclasses import dataclass

from torch_mlir import ir

from ..ir.affine import Affine, Axis
from ..ir.axes import Axes, retry_with_splits
from ..ir.expressions import Apply, Expr, Load, Scan, walk
from ..ir.extern_calls import memory_strides
from ..ir.reading import SCATTER, Generic, Untraceable, producer
from .costs import COST
from .materialize import Materialized
from .stored import computed_shape
from .trace import Tracer

Runs = tuple[tuple[bool, int], ...]  # (reduced, extent), neighbors of a kind merged


@dataclass(eq=False)
class GroupNode:
    """One materialized value. `reads`: where it loads each memory value, as a function of its axes; nowhere for one that it changes
    (graph.scatter). `inlined`: the values that are
    computed in its expression. `cost`: operations per element."""

    value: ir.Value
    position: int
    axes: list[Axis]
    reduced: list[bool]
    expr: Expr
    reads: dict[ir.Value, list[Affine]]
    runs: Runs | None
    scan: bool
    inlined: frozenset[ir.Value] = frozenset()
    cost: int = 0

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents of its axes."""
        return tuple(a.extent for a in self.axes)


def runs_of(extents: tuple[int, ...], reduced: list[bool]) -> Runs:
    """Returns the loops' (reduced, extent) pairs, without those of extent 1, neighbors of a kind merged."""
    out: list[tuple[bool, int]] = []
    for n, r in zip(extents, reduced, strict=True):
        if n == 1:
            continue
        if out and out[-1][0] == r:
            out[-1] = (r, out[-1][1] * n)
        else:
            out.append((r, n))
    return tuple(out)


def trace_node(materialized: Materialized, value: ir.Value, position: int) -> GroupNode:
    """Traces one materialized value. Raises Untraceable with a value that has to be materialized first."""
    op = producer(value)
    assert op is not None
    rows = Axes(computed_shape(value), "r")
    generic = materialized.generic(op) if op.name == "linalg.generic" else None
    summed = [n for n, r in zip(generic.extents, generic.reduced, strict=True) if r] if generic else []
    is_reduction = bool(summed)
    inner = Axes(tuple(summed), "k")

    def columns(g: Generic) -> tuple[tuple[Affine, ...], tuple[Axis, ...]]:
        """Returns the columns of the node's own reduction. Raises Untraceable for another."""
        if g.op != op:
            raise Untraceable(g.op.results[0], "a reduction inside an expression")
        return inner.index, tuple(inner.axes)

    def build() -> tuple[Expr, frozenset[ir.Value]]:
        """Traces the node's result."""
        tracer = Tracer(materialized.is_memory, memory_strides, columns, generics=materialized.generics)
        return tracer.result(value, rows.index, memory_strides(value))[0], tracer.computed()

    expr, inlined = retry_with_splits(build, rows, inner)
    axes, reduced = _loop_order(generic, rows, inner) if is_reduction and generic else (rows.axes, [False] * len(rows.axes))
    reads: dict[ir.Value, list[Affine]] = {}
    parts = walk(expr)
    for e in parts:
        if isinstance(e, Load):
            places = reads.setdefault(e.tensor, [])
            if e.offset not in places:
                places.append(e.offset)
    if op.name == SCATTER:
        reads[op.operands[0]] = []  # also where its own elements are the values: those are in memory before
    runs = runs_of(tuple(a.extent for a in axes), reduced) if is_reduction else None
    return GroupNode(
        value, position, axes, reduced, expr, reads, runs, isinstance(expr, Scan), inlined - {value}, sum(map(_cost, parts))
    )


def _cost(e: Expr) -> int:
    return COST.get(e.op, 1) if isinstance(e, Apply) else len(e.guard) if isinstance(e, Load) else 0


def _loop_order(g: Generic, rows: Axes, inner: Axes) -> tuple[list[Axis], list[bool]]:
    """Returns the axes of rows and columns in the order of the generic's loops, and which of them are reduced."""
    by_loop: dict[int, list[Axis]] = {}
    out_map = g.result_map
    for dim, (_, terms) in enumerate(out_map):
        if terms:
            by_loop[terms[0][0]] = [a for a in rows.axes if rows.index[dim].coefficient(a)]
    k = 0
    for loop, r in enumerate(g.reduced):
        if r:
            by_loop[loop] = [a for a in inner.axes if inner.index[k].coefficient(a)]
            k += 1
    order = [(a, r) for loop, r in enumerate(g.reduced) for a in by_loop.get(loop, [])]
    return [a for a, _ in order], [r for _, r in order]
