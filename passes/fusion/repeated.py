"""Finds values that each reading kernel should compute again, instead of one kernel storing them for the others.

This is decided after grouping, because only then is it known which values share a kernel. For example, the sums over an image's
channels and the sum over the whole image may be two kernels, as may gradients of two tensors with different orders of dimensions. A
value that both compute from the same tensors may be cheaper computed twice than written by one and read by the other.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from torch_mlir import ir

from lamina.core.sizes import typical
from lamina.core.walks import reachable
from lamina.dialects.graph import IN_PLACE

from ..ir.axes import linear_position
from ..ir.reading import SCATTER, bytes_of, element_bits, elements_of
from ..trace.costs import LARGEST
from ..trace.grouping import Group
from ..trace.materialize import Materialized
from ..trace.nodes import GroupNode

WORTH = 0.5  # the least gain, in bytes, for each byte that is no longer stored
CPU_BALANCE = 2  # operations that a CPU executes while it moves a byte from or to its second-level cache


class Repeated:
    """Decides which values that kernels of a function read from each other should be recomputed. groups: one for each kernel.

    On a CPU, these are values computed from elements at their own place: elsewhere a kernel reads each of the sources across the
    order of its loops, in place of the value alone.
    """

    def __init__(self, materialized: Materialized, groups: Sequence[Group]) -> None:
        self._materialized, self._groups, self._balance = materialized, groups, materialized.balance or CPU_BALANCE
        self._nodes = {n.value: n for g in groups for n in g.nodes}
        self._group = {n.value: g for g in groups for n in g.nodes}
        kept, changed = materialized.needed_outside(), _changed(materialized)
        kept |= {v for n in self._nodes.values() for v, places in n.reads.items() if not places}  # changed by a scatter
        candidates = {v for v, n in self._nodes.items() if v not in kept and _is_elementwise(n) and v not in materialized.mixed}
        if not materialized.balance:
            candidates = {v for v in candidates if _is_in_place(self._nodes[v])}
        self._readers: dict[Group, dict[ir.Value, int]] = {}  # how often each group evaluates the values of others that it reads
        for g in groups:
            for v, count in _evaluations(g, candidates).items():
                if self._group[v] is not g and changed.isdisjoint(self._nodes[v].reads):
                    self._readers.setdefault(g, {})[v] = count

    def values(self) -> set[ir.Value]:
        """Returns the values that no kernel should store, so that their readers compute them."""
        dropped: set[ir.Value] = set()
        for together in self._connected():
            if self._is_worth(together):
                dropped |= together
            else:
                dropped.update(v for v in together if len(together) > 1 and self._is_worth({v}))
        return dropped

    def _is_worth(self, dropped: set[ir.Value]) -> bool:
        """Returns whether it is clearly better to store none of `dropped`."""
        return self._gain(dropped) > WORTH * sum(map(bytes_of, dropped))

    def traffic(self) -> float:
        """Returns the bytes that all kernels read and write, plus the bytes that could be moved in the time of their operations."""
        stored, total = self._materialized.needed_outside(), 0.0
        for g in self._groups:
            inside = {n.value for n in g.nodes}
            total += sum(map(bytes_of, {v for n in g.nodes for v in n.reads} - inside))
            total += sum(n.cost * _size(n) for n in g.nodes) / self._balance
        read = {v for g in self._groups for n in g.nodes for v in n.reads if self._group.get(v) is not g}
        return total + sum(bytes_of(v) for v in self._nodes if v in stored or v in read)

    def _connected(self) -> list[set[ir.Value]]:
        """Returns the candidates in sets to be decided together: values that one kernel reads, or that are computed from each
        other."""
        beside: dict[ir.Value, set[ir.Value]] = defaultdict(set)
        for read in self._readers.values():
            for v in read:
                beside[v].update(read)
        for v in list(beside):
            for w in self._nodes[v].reads:
                if w in beside:
                    beside[v].add(w)
                    beside[w].add(v)
        left, sets = dict.fromkeys(beside), []
        while left:
            together = set(reachable([next(iter(left))], lambda v: list(beside[v])))
            left = {v: None for v in left if v not in together}
            sets.append(together)
        return sets

    def _gain(self, dropped: set[ir.Value]) -> float:
        """Returns the bytes saved if no kernel stores `dropped`: those no longer moved, less those read instead, less the bytes
        that could be moved in the time of the added operations."""
        gain = float(sum(map(bytes_of, dropped)))
        for g, counts in self._readers.items():
            read = {v: n for v, n in counts.items() if v in dropped}
            if not read:
                continue
            costs, outer = self._computed(read, dropped)
            if max(costs.values()) > LARGEST:
                return 0.0
            has = {v for n in g.nodes for v in (n.value, *n.reads)} - dropped
            gain += sum(min(bytes_of(v), n * element_bits(v) // 8) for v, n in read.items())
            gain -= sum(map(bytes_of, outer - has)) + sum(costs[v] * n for v, n in read.items()) / self._balance
        return gain

    def _computed(self, values: Iterable[ir.Value], dropped: set[ir.Value]) -> tuple[dict[ir.Value, int], set[ir.Value]]:
        """Returns the operations per element of `values` if none of `dropped` is stored, and the values in memory that they then
        read."""
        costs: dict[ir.Value, int] = {}
        outer: set[ir.Value] = set()

        def cost(v: ir.Value) -> int:
            """Returns the operations of one value."""
            if v not in dropped:
                outer.add(v)
                return 0
            if v not in costs:
                n = self._nodes[v]
                costs[v] = n.cost + sum(cost(w) * len(places) for w, places in n.reads.items())
            return costs[v]

        for v in values:
            cost(v)
        return costs, outer


def _is_elementwise(n: GroupNode) -> bool:
    """Returns whether a value is computed element by element."""
    return not any(n.reduced) and not n.scan and n.value.owner.name == "linalg.generic"


def _is_in_place(n: GroupNode) -> bool:
    """Returns whether a value is computed from elements of other tensors of its size at the same place, and of smaller ones."""
    place = [linear_position(n.axes)]
    return all(places == place or elements_of(v) < _size(n) for v, places in n.reads.items())


def _size(n: GroupNode) -> int:
    return math.prod(map(typical, n.extents))


def _evaluations(g: Group, values: set[ir.Value]) -> Mapping[ir.Value, int]:
    """Returns how many elements a group reads of each value in `values`; an element that is read twice counts twice."""
    reads: dict[ir.Value, int] = defaultdict(int)
    for n in g.nodes:
        for v, places in n.reads.items():
            if v in values:
                reads[v] += len(places) * _size(n)
    return reads


def _changed(materialized: Materialized) -> set[ir.Value]:
    """Returns the values in memory that calls or kernels change in place: computing from them later would give other results."""
    ops = [op for op in materialized.ops if "graph.effect" in op.attributes or (op.name == SCATTER and IN_PLACE in op.attributes)]
    return {materialized.bases.get(v, v) for op in ops for v in op.operands}
