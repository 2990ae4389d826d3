"""Reads numbers that are linear in the positions of queries and keys, and comparisons of them, in the ops that compute a mask."""

import numpy as np

from ....ir.sizes import size_of
from .meaning import KEY, QUERY
from .parts import MaskPart, Values, seen_through
from .positions import PREDICATES, Linear, Region


def place(part: MaskPart, values: Values) -> Linear | Region | None:
    """Returns a number that is linear in the positions of query and key, or where a comparison of such numbers holds; None for
    others. For symbolic sizes, which have no values."""
    at = seen_through(part)
    op, known = at.op, values.of(at)
    if known is not None and known.size == 1:
        constant = known.reshape(())[()]
        if known.dtype == bool:
            return Region() if constant else None
        return Linear(0, 0, int(constant)) if np.issubdtype(known.dtype, np.integer) else None
    if op is None or at.is_tensor:
        return None
    if (size := size_of(at.value)) is not None:
        return Linear(0, 0, size)
    if op.name == "linalg.index":
        walked = [d for d, a in enumerate(at.axes) if a == op.attributes["dim"].value]
        known_axis = len(walked) == 1 and walked[0] in (QUERY, KEY)
        return Linear(int(walked[0] == QUERY), int(walked[0] == KEY), 0) if known_axis else None
    match op.name.removeprefix("arith."), [place(at.argument(i), values) for i in range(len(op.operands))]:
        case "index_cast" | "extsi" | "trunci" | "extui", [found]:
            return found
        case "addi", [Linear() as x, Linear() as y]:
            return x + y
        case "subi", [Linear() as x, Linear() as y]:
            return x + y.times(-1)
        case "muli", [Linear() as x, Linear(0, 0, int() as factor)] | [Linear(0, 0, int() as factor), Linear() as x]:
            return x.times(factor)
        case "cmpi", [Linear() as x, Linear() as y]:
            return x.compared(PREDICATES[op.attributes["predicate"].value], y)
        case "andi", [Region() as x, Region() as y]:
            return x & y
        case "select", [Region() as x, *_]:
            return _selected(at, x, values)
    return None


def _selected(at: MaskPart, where: Region, values: Values) -> Region | None:
    """Returns where a select of two known bools by a region is true; None for others."""
    first, second = (values.of(at.argument(i)) for i in (1, 2))
    if first is None or second is None or first.size + second.size != 2 or first.dtype != bool:
        return None
    taken = bool(first.reshape(())), bool(second.reshape(()))
    return {(True, False): where, (False, True): where.outside(), (True, True): Region()}.get(taken)
