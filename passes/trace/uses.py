"""Finds the ops of a function that read a value, inside and outside of Lamina's kernels."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from torch_mlir import ir

from lamina.core.walks import reachable
from lamina.dialects.graph import CALLS

from ..ir.reading import producer
from ..ir.views import SINGLE_VIEWS

OUTSIDE = ("func.return", *CALLS, "func.call", "return", "call")
"""Ops that no kernel of Lamina's holds."""


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

    def wait(self, user: ir.Operation, first: ir.Operation) -> bool:
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
