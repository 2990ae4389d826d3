"""Interval analysis of integers in bodies: ranges of constants, tables of constants, positions and arithmetic on them.

The ranges decide comparisons, so that a check of an index known at compile time disappears; they mark reads that need no check,
and let tables of small numbers be read in 32 bits.
"""

from collections.abc import Callable

import numpy as np
from torch_mlir import ir

from ...ir.reading import CHECKED
from ...ir.rewriting import constant, producer
from ..evaluate import array_of, attribute_of
from ..scalars import ScalarRef
from ..scope import RewriteScope
from .casts import _element, _is_bool

Interval = tuple[int, int]  # least and largest value, inclusive

_EQ, _NE, _SLT, _SLE, _SGT, _SGE, _ULT, _ULE, _UGT, _UGE = range(10)
_DEEPEST = 8
_NARROW = 32


def interval(s: RewriteScope, ref: ScalarRef, depth: int = _DEEPEST) -> Interval | None:
    """Returns the range of an integer, None where it is unknown."""
    number = s.number(ref)
    if number is not None:
        return int(number), int(number)
    found = s.scalars.resolve(ref)
    if isinstance(found.value.type, ir.RankedTensorType):
        return _of_table(s, found.value)
    node = s.node(found) if depth else None
    if node is None or _is_bool(found.value.type):
        return None
    if node.name == "linalg.index":
        loop = found.index[ir.IntegerAttr(node.op.attributes["dim"]).value]
        extent = 1 if loop < 0 else s.generic.extents.get(loop)
        return None if extent is None else (0, max(extent - 1, 0))
    if node.name == "arith.extui" and _is_bool(node.args[0].value.type):
        return 0, 1
    if node.name not in _ARITHMETIC:
        return None
    known = [interval(s, arg, depth - 1) for arg in (node.args[1:] if node.name == "arith.select" else node.args)]
    if node.name in ("arith.minsi", "arith.maxsi"):  # these bound even an unknown operand
        known = [_all(_element(found.value.type)) if x is None else x for x in known]
    made = None if None in known else _ARITHMETIC[node.name](*known)
    return made if made is not None and _holds(_element(found.value.type), made) else None


def compare(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """Replaces a comparison that the ranges decide by its value."""
    a, b = s.args(op)
    x = interval(s, a)
    y = None if x is None else interval(s, b)
    if x is None or y is None:
        return None
    predicate = ir.IntegerAttr(op.attributes["predicate"]).value
    if predicate >= _ULT:
        if min(x[0], y[0]) < 0:
            return None
        predicate -= _ULT - _SLT
    decided = _DECIDED[predicate](x, y)
    return None if decided is None else s.constant(int(decided), op.results[0].type, op)


def mark_checked(s: RewriteScope, op: ir.Operation) -> None:
    """Marks a tensor.extract whose indices are all known to be in bounds, so that its kernel does not check them."""
    if CHECKED in op.attributes:
        return
    shape = ir.ShapedType(op.operands[0].type).shape
    for ref, n in zip(s.args(op)[1:], shape, strict=True):
        known = interval(s, ref)
        if known is None or known[0] < 0 or known[1] >= n:
            return
    op.attributes[CHECKED] = ir.UnitAttr.get(op.context)


def narrow_table(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """Casts an element of a constant i64 table to index: reads an i32 copy of the table where its numbers fit."""
    found = s.scalars.resolve(s.args(op)[0])
    type_ = found.value.type
    if not isinstance(type_, ir.RankedTensorType) or not isinstance(op.results[0].type, ir.IndexType):
        return None
    narrow = ir.IntegerType.get_signless(_NARROW, op.context)
    if _element(type_) != ir.IntegerType.get_signless(64, op.context):
        return None
    known = _of_table(s, found.value)
    if known is None or not _holds(narrow, known):
        return None
    table = _twin(s, found.value, narrow)
    return s.build("arith.index_cast", op.results[0].type, [s.read(ScalarRef(table, found.index))], op)


def _of_table(s: RewriteScope, value: ir.Value) -> Interval | None:
    """Returns the range of a constant integer tensor's elements, cached."""
    known = s.scalars.intervals
    if value not in known:
        made = producer(value)
        x = array_of(made.attributes["value"]) if made is not None and made.name == "arith.constant" else None
        fits = x is not None and x.size > 0 and np.issubdtype(x.dtype, np.integer)
        known[value] = (int(x.min()), int(x.max())) if x is not None and fits else None
    return known[value]


def _twin(s: RewriteScope, value: ir.Value, element: ir.Type) -> ir.Value:
    """Returns a copy of a constant tensor with another element type, created once, next to it."""
    if value not in s.scalars.twins:
        made = producer(value)
        assert made is not None
        x = array_of(made.attributes["value"])
        assert x is not None
        narrow = attribute_of(x.astype(np.int32), element, tuple(x.shape))
        s.scalars.twins[value] = constant(narrow, ir.InsertionPoint(made), made.location)
    return s.scalars.twins[value]


def _holds(type_: ir.Type, x: Interval) -> bool:
    """Returns whether an integer type holds all numbers of a range, so that none wrapped."""
    low, high = _all(type_)
    return low <= x[0] and x[1] <= high


def _all(type_: ir.Type) -> Interval:
    bits = type_.width if isinstance(type_, ir.IntegerType) else 64
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _same(x: Interval) -> Interval:
    return x


def _times(x: Interval, y: Interval) -> Interval:
    ends = [a * b for a in x for b in y]
    return min(ends), max(ends)


def _hull(x: Interval, y: Interval) -> Interval:
    return min(x[0], y[0]), max(x[1], y[1])


def _halved(x: Interval, y: Interval) -> Interval | None:
    return (x[0] >> y[0], x[1] >> y[0]) if y[0] == y[1] and 0 <= y[0] < 64 else None


def _floor(x: Interval, y: Interval) -> Interval | None:
    return (x[0] // y[0], x[1] // y[0]) if y[0] == y[1] > 0 else None


_ARITHMETIC: dict[str, Callable[..., Interval | None]] = {
    "arith.index_cast": _same,
    "arith.extsi": _same,
    "arith.extui": lambda x: x if x[0] >= 0 else None,
    "arith.trunci": _same,
    "arith.select": _hull,
    "arith.addi": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "arith.subi": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "arith.muli": _times,
    "arith.minsi": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "arith.maxsi": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "arith.shrsi": _halved,
    "arith.floordivsi": _floor,
}
_DECIDED: dict[int, Callable[[Interval, Interval], bool | None]] = {
    _EQ: lambda x, y: False if x[1] < y[0] or y[1] < x[0] else True if x[0] == x[1] == y[0] == y[1] else None,
    _NE: lambda x, y: True if x[1] < y[0] or y[1] < x[0] else False if x[0] == x[1] == y[0] == y[1] else None,
    _SLT: lambda x, y: True if x[1] < y[0] else False if x[0] >= y[1] else None,
    _SLE: lambda x, y: True if x[1] <= y[0] else False if x[0] > y[1] else None,
    _SGT: lambda x, y: True if x[0] > y[1] else False if x[1] <= y[0] else None,
    _SGE: lambda x, y: True if x[0] >= y[1] else False if x[1] < y[0] else None,
}
