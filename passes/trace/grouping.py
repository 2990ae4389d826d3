"""Groups materialized values that one kernel computes together.

A node is one materialized value with its expression (`nodes`). Two groups merge when they run over the same rows and columns, read
each other's values only in the iteration that computes them, have no dependence through anything outside, and when merging saves
bytes.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, field

from torch_mlir import ir

from lamina.core.sizes import SizeLike
from lamina.dialects.graph import CALLS

from ..ir.affine import Affine, Axis, refine
from ..ir.axes import cut_axes, linear_position
from ..ir.expressions import Scan, Scatter, bounds_in, walk
from ..ir.reading import bytes_of, producer
from .materialize import Materialized
from .nodes import GroupNode, Runs, runs_of

LEAST_SHARED = 0.25  # of the bytes that a node loads, for it to join a group that loads the same but stores none of it


@dataclass(eq=False)
class Group:
    """Nodes that one kernel computes, in program order."""

    nodes: list[GroupNode] = field(default_factory=list)

    @property
    def runs(self) -> Runs | None:
        """The rows and columns of its first reduction; None without reductions."""
        return next((n.runs for n in self.nodes if n.runs is not None), None)


class Grouping:
    """Merges nodes in program order, each with the group that saves most bytes first."""

    def __init__(self, materialized: Materialized, nodes: list[GroupNode], max_ops: int, max_cost: int) -> None:
        """max_ops, max_cost: see fusion/groups.Limits."""
        self.max_ops, self.max_cost = max_ops, max_cost
        self.mixed, self.atomic = materialized.mixed, materialized.balance > 0
        self.group_of: dict[ir.Value, Group] = {}
        self.before = _dependencies(materialized, nodes)
        self.position = {op: i for i, op in enumerate(materialized.ops)}
        for n in nodes:
            self.group_of[n.value] = Group([n])
        readers: dict[ir.Value, list[GroupNode]] = {}
        for n in nodes:
            self._merge(n, readers)
            for v in n.reads:
                readers.setdefault(v, []).append(n)

    def groups(self) -> list[Group]:
        """Returns the groups, in the order of their first values."""
        return list(dict.fromkeys(self.group_of.values()))

    def _merge(self, n: GroupNode, readers: dict[ir.Value, list[GroupNode]]) -> None:
        """Merges a node with the groups that store or load what it loads, the most bytes saved first, where possible. readers: the
        nodes before it that load a value."""
        saved: dict[Group, float] = {}
        loaded = [v for v, places in n.reads.items() if places]
        for v in loaded:
            made_by = self.group_of.get(v)
            if made_by is not None:
                saved[made_by] = saved.get(made_by, 0) + 2 * bytes_of(v)
            for other in readers.get(v, []):
                g = self.group_of[other.value]
                if g is not made_by:
                    saved[g] = saved.get(g, 0) + bytes_of(v)
        total = sum(bytes_of(v) for v in loaded)
        producers = {self.group_of[v] for v in loaded if v in self.group_of}
        for g, gain in sorted(saved.items(), key=lambda x: -x[1]):
            group = self.group_of[n.value]
            current = self.group_of[g.nodes[0].value]
            if current is not group and (g in producers or gain >= LEAST_SHARED * total) and self._mergeable(current, group):
                current.nodes = sorted(current.nodes + group.nodes, key=lambda x: x.position)
                for x in group.nodes:
                    self.group_of[x.value] = current

    def _mergeable(self, a: Group, b: Group) -> bool:
        """Returns whether one kernel can compute two groups: of its size, loops and order, with nothing between them."""
        nodes, runs = a.nodes + b.nodes, a.runs if a.runs is not None else b.runs
        if len(nodes) > self.max_ops or sum(n.cost for n in nodes) > self.max_cost or math.prod(nodes[-1].extents) == 0:
            return False
        if any(map(_combines, nodes)) and (runs is not None or not self._may_combine(nodes)):
            return False
        orders = {self.mixed.get(n.value) for n in nodes}
        if orders != {None} and (runs is not None or len(orders) > 1):
            return False
        if not _scans_last(nodes, runs) or not all(_fits(n, nodes, runs) for n in nodes) or not _at_hand(nodes, runs):
            return False
        return not self._between(a, b) and not self._between(b, a)

    def _may_combine(self, nodes: list[GroupNode]) -> bool:
        """Returns whether a kernel can combine values with elements and compute the other nodes, too. On a CPU all of them must
        combine, and have elements of their own along the same axes: programs take parts of these alone."""
        if any(n.scan for n in nodes):
            return False
        return self.atomic or len({_disjoint_axes(n) for n in nodes}) == 1

    def _between(self, first: Group, last: Group) -> bool:
        """Returns whether something outside of both depends on `first` and is needed by `last`."""
        earliest = min(n.position for n in first.nodes)
        inside = {n.value for n in first.nodes} | {n.value for n in last.nodes}
        targets = {n.value for n in first.nodes}
        stack = [v for n in last.nodes for v in self.before[n.value] if v not in inside]
        seen: set[ir.Value] = set()
        while stack:
            v = stack.pop()
            if v in seen:
                continue
            members = [n.value for n in self.group_of[v].nodes] if v in self.group_of else [v]
            seen.update(members)
            read = [p for m in members for p in self.before.get(m, ())]
            if not targets.isdisjoint(read):
                return True
            stack += [p for p in read if p not in seen and p not in inside and self._reaches(p, earliest)]
        return False

    def _reaches(self, v: ir.Value, earliest: int) -> bool:
        """Returns whether `v` (with its group) can depend on something as late as `earliest`."""
        if v in self.group_of:
            return max(n.position for n in self.group_of[v].nodes) > earliest
        op = producer(v)
        return op is not None and self.position[op] > earliest


def _combines(n: GroupNode) -> bool:
    return isinstance(n.expr, Scatter) and bool(n.expr.combine)


def _disjoint_axes(n: GroupNode) -> tuple[tuple[SizeLike, bool], ...]:
    """Returns, of a node that combines, the axes and whether every iteration along them has elements of its own."""
    e = n.expr
    return tuple((a.extent, a in e.disjoint_axes) for a in n.axes) if isinstance(e, Scatter) and e.combine else ()


def _dependencies(materialized: Materialized, nodes: list[GroupNode]) -> dict[ir.Value, list[ir.Value]]:
    """Returns the memory values that each memory value is computed from."""
    before: dict[ir.Value, list[ir.Value]] = {n.value: list(n.reads) for n in nodes}
    for op in materialized.ops:
        if op.name in (*CALLS, "func.call"):
            reads = [materialized.bases.get(v, v) for v in op.operands]
            for r in op.results:
                before[r] = reads
    return before


def _scans_last(nodes: list[GroupNode], runs: Runs | None) -> bool:
    """Returns whether all scans of a group run along the same columns: those of its reductions, which stand before them."""
    scans = [n for n in nodes if n.scan]
    if not scans:
        return True
    own = {runs_of(n.extents, [isinstance(n.expr, Scan) and a == n.expr.axis for a in n.axes]) for n in scans}
    first = min(n.position for n in scans)
    return len(own) == 1 and (runs is None or (own == {runs} and all(n.runs is None or n.position < first for n in nodes)))


def _fits(n: GroupNode, nodes: list[GroupNode], runs: Runs | None) -> bool:
    """Returns whether `n` runs over the rows and columns of the group, or over its rows alone."""
    if runs is None:
        return math.prod(n.extents) == math.prod(nodes[0].extents) and refine([n.extents, nodes[0].extents]) is not None
    if n.runs is not None:
        return n.runs == runs
    return _role(n, runs, _cut_shapes(nodes)) is not None


def _cut_shapes(nodes: list[GroupNode]) -> set[tuple[SizeLike, ...]]:
    """Returns the shapes of which reductions among `nodes` read all elements, in order, before padding: the last part of a sum may
    be shorter than the others."""
    shapes = set()
    for n in nodes:
        for bound in bounds_in(walk(n.expr)) if n.runs is not None else ():
            if count := cut_axes(n.axes, bound):
                shapes.add((bound.high, *n.extents[count:]))
    return shapes


def _role(n: GroupNode, runs: Runs, cut: Collection[tuple[SizeLike, ...]]) -> str | None:
    """Returns "full", "row" or "cut": whether `n` runs over the whole space, over its rows, or over a shape of `cut`, which the
    space is when padded; None if over none of them."""
    full, rows = tuple(e for _, e in runs), tuple(e for r, e in runs if not r)
    size = math.prod(n.extents)
    if size == math.prod(full):
        return "full" if refine([n.extents, full]) is not None else None
    if size == math.prod(rows):
        return "row" if refine([n.extents, rows]) is not None else None
    return "cut" if tuple(e for e in n.extents if e != 1) in cut else None


def _row_axes(n: GroupNode, runs: Runs) -> list[Axis] | None:
    """Returns the row axes among a full node's axes; None if an axis spans rows and columns."""
    if n.runs is not None:
        return [a for a, r in zip(n.axes, n.reduced, strict=True) if not r]
    left = [[r, e] for r, e in runs]
    out = []
    for a in n.axes:
        if a.extent == 1:
            continue
        while left and left[0][1] == 1:
            left.pop(0)
        if not left or left[0][1] % a.extent:
            return None
        left[0][1] //= a.extent
        if not left[0][0]:
            out.append(a)
    return out


def _at_hand(nodes: list[GroupNode], runs: Runs | None) -> bool:
    """Returns whether nodes load from each other only elements that the same iteration computes."""
    inside, cut = {n.value: n for n in nodes}, _cut_shapes(nodes)
    loads = [(n, inside[v], places) for n in nodes for v, places in n.reads.items() if v in inside]
    return all(places and all(_is_computed_there(n, made, at, runs, cut) for at in places) for n, made, places in loads)


def _is_computed_there(
    reader: GroupNode, producer: GroupNode, offset: Affine, runs: Runs | None, cut: Collection[tuple[SizeLike, ...]]
) -> bool:
    """Returns whether the element of `producer` that `reader` loads is the one computed in the same iteration (or row). cut: see
    `_role`."""
    if isinstance(producer.expr, Scatter):
        return False
    if runs is None:
        return offset == linear_position(reader.axes)
    made_is_row = producer.runs is not None or _role(producer, runs, cut) == "row"
    reader_is = "full" if reader.runs is not None else _role(reader, runs, cut)
    reader_is_row = reader_is == "row"
    if reader_is == "cut" and (made_is_row or _role(producer, runs, cut) != "cut"):
        return False
    if not made_is_row:
        return not reader_is_row and offset == linear_position(reader.axes)
    if reader_is_row:
        return offset == linear_position(reader.axes)
    rows = _row_axes(reader, runs)
    return rows is not None and offset == linear_position(rows)
