"""Finds values that are computed from another value, element by element, only to be padded, concatenated or cut.

A kernel of such an op has a different index space from the value. Computing the value there, once for each of its elements, takes
no memory; storing it takes a kernel of its own.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from torch_mlir import ir

from ..ir.reading import identity_map, ops_in
from .orders import PLACES, Read

MOVES = ("tensor.extract_slice", *PLACES)
MOST = 64  # values that are followed

OpsOf = Callable[[ir.Value], Iterable[ir.Operation]]


@dataclass
class PlacedParts:
    """The uses of a value.

    placed  the values computed from it, element by element, that ops of MOVES read; it is evaluated once for each of them
    others  the ops that read it for anything else
    """

    placed: set[ir.Value] = field(default_factory=set)
    others: list[ir.Operation] = field(default_factory=list)


def placed_parts(v: ir.Value, users: OpsOf, read: Read) -> PlacedParts:
    """Returns the uses of a value that only kernels read.

    users  the ops that read a value; none where something outside of kernels reads it, too
    read   reads a linalg.generic
    """
    known: dict[ir.Value, set[ir.Value] | None] = {}

    def ends(x: ir.Value) -> set[ir.Value] | None:
        """Returns the values computed from `x` that ops of MOVES read; None if any other op reads one of these values."""
        if x not in known:
            known[x] = None
            moved: set[ir.Value] = set()
            readers = set(users(x)) if len(known) < MOST else set()
            for op in readers:
                if op.name in MOVES:
                    moved.add(x)
                elif not _maps_in_place(op, x, read) or (further := ends(op.results[0])) is None:
                    return None
                else:
                    moved |= further
            known[x] = moved if readers else None
        return known[x]

    parts = PlacedParts()
    for op in dict.fromkeys(users(v)):
        if op.name in MOVES:
            parts.placed.add(v)
        elif _maps_in_place(op, v, read) and (moved := ends(op.results[0])) is not None:
            parts.placed |= moved
        else:
            parts.others.append(op)
    return parts


def _maps_in_place(op: ir.Operation, v: ir.Value, read: Read) -> bool:
    """Returns whether an op is a map that reads a value at the position of its result alone."""
    g = read(op) if op.name == "linalg.generic" and len(op.results) == 1 else None
    if g is None or any(g.reduced):
        return False
    here = identity_map(len(g.extents))
    at = [m for operand, m in zip(op.operands, g.maps, strict=True) if operand == v]
    gathers = any(o.name == "tensor.extract" and o.operands[0] == v for o in ops_in(op.regions[0].blocks[0]))
    return g.result_map == here and all(m == here for m in at) and not gathers
