"""Lowers masks of rows that start or end in the middle of an access (tile.window). Accesses in the middle of a row need no
predicate."""

from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith

from .values import PartialMask, WindowMask, together

if TYPE_CHECKING:
    from .kernel import ThreadKernel

_AT_LEAST, _BELOW, _AT_MOST = arith.CmpIPredicate.sge, arith.CmpIPredicate.slt, arith.CmpIPredicate.sle


def window(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers tile.window to predicates for the accesses that it may cut."""
    shape = k.shape
    low, high = (k.uniform(v) for v in op.operands)
    most, least = (ir.IntegerAttr(op.attributes[name]).value for name in ("most", "least"))
    parts: list[PartialMask | None] = []
    for c, own in enumerate(k.offsets):
        head = most > c * shape.threads * shape.vec
        tail = ((shape.cluster - 1) * shape.chunks + c + 1) * shape.threads * shape.vec > least
        lanes = [k.index_ops.add(own, i) for i in range(shape.vec)]
        wanted = [[arith.cmpi(_AT_LEAST, lane, low)] * head + [arith.cmpi(_BELOW, lane, high)] * tail for lane in lanes]
        whole = [arith.cmpi(_AT_LEAST, own, low)] * head + [arith.cmpi(_AT_MOST, k.index_ops.add(own, shape.vec), high)] * tail
        if head or tail:
            inside = arith.cmpi(_BELOW, own, high) if tail else None
            parts.append(PartialMask(inside, _all(whole), together([_all(w) for w in wanted])))
        else:
            parts.append(None)
    k.values[op.results[0]] = WindowMask(tuple(parts), low, high)


def ending(k: "ThreadKernel", count: ir.Value) -> WindowMask:
    """Returns the mask of the first `count` lanes, which may end in the middle of an access."""
    parts = []
    for own in k.offsets:
        lanes = [arith.cmpi(_BELOW, k.index_ops.add(own, i), count) for i in range(k.shape.vec)]
        parts.append(PartialMask(lanes[0], arith.cmpi(_AT_MOST, k.index_ops.add(own, k.shape.vec), count), together(lanes)))
    return WindowMask(tuple(parts), k.index_ops.number(0), count)


def _all(conditions: list[ir.Value]) -> ir.Value:
    return conditions[0] if len(conditions) == 1 else arith.andi(*conditions)
