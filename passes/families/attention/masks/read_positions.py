"""Reads numbers that are linear in the positions of queries and keys, and comparisons of them, in the ops that compute a mask."""

import numpy as np
from torch_mlir import ir

from ....ir.sizes import size_of
from ....simplify.scalars import ScalarNode, ScalarRef
from .meaning import KEY, QUERY
from .parts import Values, is_tensor
from .positions import PREDICATES, Linear, Region

_WIDE = 32  # bits of an integer that holds every position


def linear_or_region(part: ScalarRef, values: Values) -> Linear | Region | None:
    """Returns a number that is linear in the positions of query and key, or the region where a comparison of such numbers holds;
    None for others. For symbolic sizes, which have no values."""
    known = values.of(part)
    if known is not None and known.size == 1:
        constant = known.reshape(())[()]
        if known.dtype == bool:
            return Region() if constant else None
        return Linear(0, 0, int(constant)) if np.issubdtype(known.dtype, np.integer) else None
    resolved = values.scalars.resolve(part)
    if not is_tensor(resolved) and (size := size_of(resolved.value)) is not None:
        return Linear(0, 0, size)
    node = values.scalars.node(part)
    if node is None:
        return None
    if node.name == "linalg.index":
        axis = resolved.index[node.op.attributes["dim"].value]
        return Linear(int(axis == QUERY), int(axis == KEY), 0) if axis in (QUERY, KEY) else None
    match node.name.removeprefix("arith."), [linear_or_region(arg, values) for arg in node.args]:
        case "index_cast" | "extsi", [found]:
            return found
        case "trunci", [found] if ir.IntegerType(node.op.results[0].type).width >= _WIDE:
            return found
        case "addi", [Linear() as x, Linear() as y]:
            return x + y
        case "subi", [Linear() as x, Linear() as y]:
            return x + y.times(-1)
        case "muli", [Linear() as x, Linear(0, 0, int() as factor)] | [Linear(0, 0, int() as factor), Linear() as x]:
            return x.times(factor)
        case "cmpi", [Linear() as x, Linear() as y]:
            return x.compared(PREDICATES[node.op.attributes["predicate"].value], y)
        case "andi", [Region() as x, Region() as y]:
            return x & y
        case "select", [Region() as x, *_]:
            return _selected(node, x, values)
    return None


def _selected(node: ScalarNode, where: Region, values: Values) -> Region | None:
    """Returns where a select of two known bools by a region is true; None for others."""
    first, second = (values.of(arg) for arg in node.args[1:])
    if first is None or second is None or first.size + second.size != 2 or first.dtype != bool:
        return None
    taken = bool(first.reshape(())), bool(second.reshape(()))
    return {(True, False): where, (False, True): where.outside(), (True, True): Region()}.get(taken)
