"""Lowers masks of rows that start or end in the middle of an access (tile.window). Accesses in the middle of a row need no
predicate."""

from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith

from .values import PartialMask, WindowMask, vector_of

if TYPE_CHECKING:
    from .kernel import ThreadKernel

_AT_LEAST, _BELOW, _AT_MOST = arith.CmpIPredicate.sge, arith.CmpIPredicate.slt, arith.CmpIPredicate.sle


def window(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers tile.window to predicates for the accesses that it may cut."""
    shape = k.shape
    low, high = (k.uniform(v) for v in op.operands)
    max_low, min_high = (ir.IntegerAttr(op.attributes[name]).value for name in ("max_low", "min_high"))
    parts: list[PartialMask | None] = []
    for c, first in enumerate(k.offsets):
        head = max_low > c * shape.threads * shape.vec
        tail = ((shape.cluster - 1) * shape.chunks + c + 1) * shape.threads * shape.vec > min_high
        lanes = [k.index_ops.add(first, i) for i in range(shape.vec)]
        bounds = [[arith.cmpi(_AT_LEAST, lane, low)] * head + [arith.cmpi(_BELOW, lane, high)] * tail for lane in lanes]
        fits = [arith.cmpi(_AT_LEAST, first, low)] * head + [arith.cmpi(_AT_MOST, k.index_ops.add(first, shape.vec), high)] * tail
        if head or tail:
            inside = arith.cmpi(_BELOW, first, high) if tail else None
            parts.append(PartialMask(inside, _all(fits), vector_of([_all(w) for w in bounds])))
        else:
            parts.append(None)
    k.values[op.results[0]] = WindowMask(tuple(parts), low, high)


def mask_before(k: "ThreadKernel", count: ir.Value) -> WindowMask:
    """Returns the mask of the first `count` lanes, which may end in the middle of an access."""
    parts = []
    for first in k.offsets:
        lanes = [arith.cmpi(_BELOW, k.index_ops.add(first, i), count) for i in range(k.shape.vec)]
        parts.append(PartialMask(lanes[0], arith.cmpi(_AT_MOST, k.index_ops.add(first, k.shape.vec), count), vector_of(lanes)))
    return WindowMask(tuple(parts), k.index_ops.number(0), count)


def _all(conditions: list[ir.Value]) -> ir.Value:
    return conditions[0] if len(conditions) == 1 else arith.andi(*conditions)
