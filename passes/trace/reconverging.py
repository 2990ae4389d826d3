"""Finds values whose users, element by element, all lead to one value that is then padded, concatenated or cut."""

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping

from torch_mlir import ir

from ..ir.reading import ops_in
from ..ir.views import SINGLE_VIEWS
from .orders import PLACES, Read

OpsOf = Callable[[ir.Value], Iterable[ir.Operation]]


def is_placed_whole(v: ir.Value, position: Mapping[ir.Operation, int], users: OpsOf, read: Read) -> bool:
    """Returns whether all that is computed of `v` is one value of its shape, and only ops of other index spaces read that one.

    The kernel of such an op evaluates `v` once for each element, however many operations read it in between, as the tracer
    evaluates a value once for an index. A kernel that stored `v` would be another one, since its index space is another.

    position  of each op in the program
    users     the ops that read a value; none where something outside of kernels reads it, too
    read      reads a linalg.generic
    """
    reached, pending, single = {v}, [(position[op], op) for op in set(users(v))], False
    heapq.heapify(pending)
    while pending:
        op = heapq.heappop(pending)[1]
        if op.name in (*SINGLE_VIEWS, *PLACES):
            return single and all(other.name in (*SINGLE_VIEWS, *PLACES) for _, other in pending)
        if not _maps_in_place(op, reached, read):
            return False
        single = not pending
        result = op.results[0]
        reached.add(result)
        waiting = {other for _, other in pending}
        for user in set(users(result)) - waiting:
            heapq.heappush(pending, (position[user], user))
    return False


def _maps_in_place(op: ir.Operation, values: Collection[ir.Value], read: Read) -> bool:
    """Returns whether an op is a map that reads these values, of those that it reads, at the position of its result alone."""
    g = read(op) if op.name == "linalg.generic" and len(op.results) == 1 else None
    if g is None or any(g.reduced):
        return False
    here = tuple((0, ((i, 1),)) for i in range(len(g.extents)))
    at = [m for operand, m in zip(op.operands, g.maps, strict=True) if operand in values]
    gathers = any(o.name == "tensor.extract" and o.operands[0] in values for o in ops_in(op.regions[0].blocks[0]))
    return g.maps[g.inputs] == here and all(m == here for m in at) and not gathers
