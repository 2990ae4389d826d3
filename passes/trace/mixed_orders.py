"""Values that are computed, element by element, of tensors whose dimensions lie in different orders in memory, and then reduced.

A kernel that only maps such tensors transposes blocks of them on the way (see squares); one that reduces them as well would read
one of them with gaps, a whole sector for each element. So what lies in one of these orders is stored once in the other, and reduced
from there.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from ..ir.reading import producer, shape_of
from .gathered import gathered
from .orders import (
    LARGE,
    Read,
    Strides,
    chain_of,
    innermost_of,
    is_given,
    map_of,
    strides_through_views,
    tensors,
    viewed,
    wanted_images,
    width,
)
from .trace import VIEWS


@dataclass(frozen=True)
class Orders:
    """How values of a function lie in memory, or would where they are stored.

    innermost  of what is given, or mapped of that, the dimension along which neighbours lie; None where that is open
    stored     what is to be stored before it is reduced, and in which order
    """

    innermost: dict[ir.Value, int | None]
    stored: dict[ir.Value, int]


def orders_of(ops: Sequence[ir.Operation], strides_of: Strides, read: Read) -> Orders:
    """Return the orders of a function's values.

    What a library takes with its channels last, and is mapped of something else, is stored so by a kernel that reduces nothing.
    Where an op maps tensors of two orders, one is stored in the other's: in that of memory that is not row-major (a library's
    images with their channels last), else in the one nearest to row-major. What is stored is what the op's operand is computed of
    where that is no memory yet, in its narrowest type, else the result. What is gathered from, for a library that takes its images
    with the channels last, is stored so (see gathered).

    ops         in order
    strides_of  of arguments and results of external calls
    """
    reduced = _reduced(ops, read)
    innermost: dict[ir.Value, int | None] = {}
    firm: set[ir.Value] = set()  # of memory that is not row-major
    stored: dict[ir.Value, int] = {}

    def base_strides(v: ir.Value) -> tuple[int, ...] | None:
        if is_given(v):
            return strides_of(v)
        return None if innermost.get(v) is None else with_innermost(shape_of(v), innermost[v])

    def order(v: ir.Value) -> int | None:
        if v not in innermost:
            strides = strides_through_views(v, base_strides)
            innermost[v] = innermost_of(shape_of(v), strides) if strides is not None else None
            base = viewed(v)
            if base in firm or (is_given(base) and innermost_of(shape_of(base), strides_of(base)) not in (None, last_of(base))):
                firm.add(v)
        return innermost[v]

    for op in ops:
        for v, dim in wanted_images(op).items():
            if order(v) not in (None, dim) and producer(v) is not None and map_of(v.owner, read):
                stored[v] = innermost[v] = dim
        mapped = map_of(op, read)
        if mapped is None:
            continue
        result = op.results[0]
        found = {v: loops[i] for v, loops in mapped.items() if (i := order(v)) is not None}
        best = min((i for v, i in found.items() if v in firm), default=max(found.values(), default=None))
        innermost[result] = best
        firm.update({result} if any(v in firm for v in found) else ())
        if best is None or len(set(found.values())) < 2 or math.prod(shape_of(result)) < LARGE:
            continue
        for v in [v for v, i in found.items() if i != best]:
            chain = chain_of(v, read) if shape_of(v) == shape_of(result) else []
            chain = chain or [result]
            if any(x in reduced for x in chain):
                stored[min(chain, key=width)] = best
                innermost.update(dict.fromkeys(chain, best))
    for v, dim in gathered(ops, read).items():
        if order(v) not in (None, dim) and (chain := chain_of(v, read)):
            stored[min(chain, key=width)] = dim
    return Orders(innermost, stored)


def last_of(v: ir.Value) -> int:
    """Return the last dimension of more than one element."""
    return max((i for i, n in enumerate(shape_of(v)) if n > 1), default=0)


def with_innermost(shape: Sequence[int], dim: int | None) -> tuple[int, ...]:
    """Return strides without gaps, row-major but for one dimension that is innermost."""
    strides, step = [0] * len(shape), 1
    for d in sorted(range(len(shape)), key=lambda d: (d == dim, d), reverse=True):
        strides[d], step = step, step * shape[d]
    return tuple(strides)


def _reduced(ops: Sequence[ir.Operation], read: Read) -> set[ir.Value]:
    """Return the values that a reduction reads, and those that these are computed of element by element."""
    found: set[ir.Value] = set()
    for op in reversed(ops):
        g = read(op) if op.name == "linalg.generic" else None
        if g is not None and any(g.reduced):
            found.update(tensors(op.operands))
        elif any(v in found for v in op.results):
            found.update(map_of(op, read) or (tensors(op.operands)[:1] if op.name in VIEWS else ()))
    return found
