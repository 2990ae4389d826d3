"""Finds values that must have the same bits wherever they are computed: those that are compared for equality with their extremes.

The place of a row's maximum is where the row equals it. Computed once for the maximum and once for the comparison, an element must
have the same bits: no approximation, and no fused multiply-add, that one of the two has and the other has not.
"""

from torch_mlir import ir

from lamina.core.walks import reachable

from ..ir.reading import EQUALITY, nested, number_of, producer, reduced_loops
from ..trace.materialize import Materialized
from ..trace.uses import OUTSIDE

CONSISTENT = "graph.consistent"
_EXTREMES = ("arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf")


def ops_before_comparisons(materialized: Materialized) -> set[ir.Operation]:
    """Returns the ops that compute values compared for equality, back to what is in memory, which reads the same for all; through
    maxima and minima, back to what these are of."""
    ops: set[ir.Operation] = set()
    for op in materialized.ops:
        if op.name == "linalg.generic" and any(map(_is_equality, nested(op, "arith.cmpf"))):
            ops.update(reachable([op], lambda o: _inlined(o, materialized)))
    return ops


def _is_equality(op: ir.Operation) -> bool:
    """Returns whether a comparison is of two values for equality: neither a test for NaN nor one with a constant."""
    left, right = op.operands
    of_two = left != right and number_of(left) is None and number_of(right) is None
    return ir.IntegerAttr(op.attributes["predicate"]).value in EQUALITY and of_two


def _inlined(op: ir.Operation, materialized: Materialized) -> list[ir.Operation]:
    """Returns the ops whose results an op computes from, unless these are read from memory."""
    makers = [(v, defining) for v in op.operands if (defining := producer(v)) is not None and defining.name not in OUTSIDE]
    return [defining for v, defining in makers if not materialized.is_memory(v) or _is_extreme(defining)]


def _is_extreme(op: ir.Operation) -> bool:
    """Returns whether an op reduces by a maximum or minimum of floats."""
    return op.name == "linalg.generic" and any(reduced_loops(op)) and bool(nested(op, *_EXTREMES))
