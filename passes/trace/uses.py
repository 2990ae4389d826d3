"""Finds the ops of a function that read a value, inside and outside of Lamina's kernels, and how often they read its elements."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from torch_mlir import ir

from lamina.core.sizes import typical
from lamina.core.walks import reachable
from lamina.dialects.graph import CALLS

from ..ir.reading import Generic, elements_of, producer
from ..ir.views import SINGLE_VIEWS

OUTSIDE = ("func.return", *CALLS, "func.call", "return", "call")
"""Ops that no kernel of Lamina's holds."""
MANY = 8  # elements that one element of a broadcast value is read for


class Uses:
    """The readers of each value of a block."""

    def __init__(self, ops: Sequence[ir.Operation], position: Mapping[ir.Operation, int]) -> None:
        """position: of each op in the block."""
        self._position = position
        self._inside: dict[ir.Value, list[ir.Operation]] = defaultdict(list)
        self._outside: set[ir.Value] = set()
        for op in ops:
            if op.name in OUTSIDE:
                self._outside.update(tensors_read(op))
                continue
            for v in tensors_read(op):
                self._inside[v].append(op)

    def has(self, v: ir.Value) -> bool:
        """Returns whether anything reads a value."""
        return v in self._outside or v in self._inside

    def outside(self, v: ir.Value) -> bool:
        """Returns whether an external call or the return reads a value."""
        return v in self._outside

    def inside(self, v: ir.Value) -> list[ir.Operation]:
        """Returns the ops inside of kernels that read a value, as often as they do."""
        return self._inside.get(v, [])

    def inside_alone(self, v: ir.Value) -> list[ir.Operation]:
        """Returns the ops inside of kernels that read a value; none where something outside of them reads it, too."""
        return [] if v in self._outside else self.inside(v)

    def through_views(self, v: ir.Value) -> list[tuple[ir.Operation, ir.Value]]:
        """Returns the ops inside of kernels that read a value, also through views, and the value that each reads."""
        found: list[tuple[ir.Operation, ir.Value]] = []
        for user in self.inside(v):
            found += self.through_views(user.results[0]) if user.name in SINGLE_VIEWS else [(user, v)]
        return found

    def depends_through_call(self, user: ir.Operation, first: ir.Operation) -> bool:
        """Returns whether `user` depends on `first` through a library call, so that they are never in one kernel."""
        start = self._position[first]

        def before(step: tuple[ir.Operation, bool]) -> list[tuple[ir.Operation, bool]]:
            """Returns the steps before a step, and whether a call lies between."""
            op, called = step
            producers = [m for m in map(producer, tensors_read(op)) if m is not None and self._position[m] >= start]
            return [(m, called or m.name in OUTSIDE) for m in producers]

        return any(op == first and called for op, called in reachable([(user, False)], before))


def tensors_read(op: ir.Operation) -> list[ir.Value]:
    """Returns the tensors that an op reads: its operands, and those that its body extracts elements of."""
    tensors = [v for v in op.operands if isinstance(v.type, ir.RankedTensorType)]
    if op.name == "linalg.generic":
        for o in op.regions[0].blocks[0].operations:
            if o.operation.name == "tensor.extract":
                tensors.append(o.operation.operands[0])
    return tensors


def broadcast_sources(v: ir.Value, is_memory: Callable[[ir.Value], bool]) -> list[ir.Value]:
    """Returns the computed values, the nearest ones to `v`, of which an element is read for many elements of `v`."""
    few = elements_of(v) // MANY

    def before(w: ir.Value) -> list[ir.Value]:
        """Returns the values that a computed value is made of; behind one of few elements, only what views show."""
        op = producer(w)
        if op is None or is_memory(w) or (elements_of(w) <= few and op.name not in SINGLE_VIEWS):
            return []
        return tensors_read(op)

    found = [w for w in reachable([v], before) if elements_of(w) <= few and not is_memory(w)]
    return [w for w in found if w.owner.name not in SINGLE_VIEWS and elements_of(w) > 1]


def repetitions(g: Generic, v: ir.Value, inwards: Sequence[int] | None = None) -> tuple[int, int]:
    """Returns how often a generic reads an element of its operand `v`: in iterations of outer loops that `v` does not vary over,
    after others, and in iterations of the innermost loops, one after another. inwards: its loops, the innermost last, where that is
    not their own order."""
    loops = list(range(len(g.extents))) if inwards is None else inwards
    again, at_once = 1, 1
    for operand, m in zip(g.op.operands, g.maps, strict=True):
        if operand == v:
            varies = {loop for _, terms in m for loop, _ in terms}
            last = max((at for at, i in enumerate(loops) if i in varies and g.extents[i] != 1), default=-1)
            again = max(again, math.prod(typical(g.extents[i]) for i in loops[: max(last, 0)] if i not in varies))
            at_once = max(at_once, math.prod(typical(g.extents[i]) for i in loops[last + 1 :]))
    return again, at_once
