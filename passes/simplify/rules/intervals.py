"""Interval analysis of integers in bodies: ranges of constants, tables of constants, positions and arithmetic on them.

The ranges decide comparisons, so that a check of an index known at compile time disappears; they mark reads that need no check,
and let tables of small numbers be read in 32 bits.
"""

from collections.abc import Callable

import numpy as np
from torch_mlir import ir

from lamina.core.sizes import SizeLike, at_most

from ...ir.expressions import decide_comparison
from ...ir.index_ranges import SIGNED, UNKNOWN, Range, hull
from ...ir.reading import CHECKED, element_of, integer, producer
from ...ir.rewriting import constant
from ...ir.sizes import sizes_of
from ..evaluate import array_of, attribute_of
from ..scalars import ScalarRef
from ..scope import RewriteScope
from .casts import is_bool
from .sized_intervals import Bounds, exceeds, sized_interval

_SLT, _ULT = 2, 6
_DEEPEST = 8
_ORDERED = {2: (True, True), 3: (True, False), 4: (False, True), 5: (False, False)}  # predicates: less, strictly
_NARROW = 32


def interval(s: RewriteScope, ref: ScalarRef, depth: int = _DEEPEST) -> Range:
    """Returns the range of an integer: of its type where no more is known, UNKNOWN for a bool."""
    resolved = s.scalars.resolve(ref)
    element = element_of(resolved.value.type)
    if is_bool(element):
        return UNKNOWN
    number = s.number(ref)
    if number is not None:
        return number, number
    if isinstance(resolved.value.type, ir.RankedTensorType):
        return _table_range(s, resolved.value) or _all(element)
    node = s.node(resolved) if depth else None
    if node is None:
        return _all(element)
    if node.name == "linalg.index":
        loop = resolved.index[integer(node.op, "dim")]
        extent = 1 if loop < 0 else s.generic.extents.get(loop)
        return 0, max(extent - 1, 0) if isinstance(extent, int) else _all(element)[1]
    if node.name == "arith.extui":
        low, high = interval(s, node.args[0], depth - 1)
        return (low, high) if low >= 0 else (0, 2 * _all(element_of(node.args[0].value.type))[1] + 1)
    if node.name not in _ARITHMETIC:
        return _all(element)
    args = node.args[1:] if node.name == "arith.select" else node.args
    result = _ARITHMETIC[node.name](*(interval(s, arg, depth - 1) for arg in args))
    return result if _holds(element, result) else _all(element)


def compare(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """Replaces a comparison that the ranges decide by its value."""
    args = s.args(op)
    x, y = (interval(s, ref) for ref in args)
    predicate = integer(op, "predicate")
    if predicate >= _ULT:
        if min(x[0], y[0]) < 0:
            return None
        predicate -= _ULT - _SLT
    decided = decide_comparison(predicate, x[0] - y[1], x[1] - y[0])
    if decided is None and predicate in _ORDERED:
        decided = _decide_by_sizes(predicate, *(sized_interval(s, ref) for ref in args))
    return None if decided is None else s.constant(int(decided), op.results[0].type, op)


def _decide_by_sizes(predicate: int, x: Bounds, y: Bounds) -> bool | None:
    """Returns the truth of a comparison of signed integers where their symbolic bounds decide it, else None."""
    less, strict = _ORDERED[predicate]
    a, b = (x, y) if less else (y, x)
    if exceeds(b, a, by=1 if strict else 0):
        return True
    return False if exceeds(a, b, by=0 if strict else 1) else None


def mark_checked(s: RewriteScope, op: ir.Operation) -> None:
    """Marks a tensor.extract whose indices are all known to be in bounds, so that its kernel does not check them."""
    shape = sizes_of(ir.RankedTensorType(op.operands[0].type))
    if all(_is_inside(s, ref, n) for ref, n in zip(s.args(op)[1:], shape, strict=True)):
        op.attributes[CHECKED] = ir.UnitAttr.get(op.context)


def _is_inside(s: RewriteScope, ref: ScalarRef, n: SizeLike) -> bool:
    """Returns whether an index is known to be in a dimension of size `n`."""
    low, high = interval(s, ref)
    if isinstance(n, int):
        return low >= 0 and high < n
    least, most = sized_interval(s, ref)
    return (low >= 0 or any(at_most(0, bound) for bound in least)) and any(at_most(bound, n - 1) for bound in most)


def narrow_table(s: RewriteScope, op: ir.Operation) -> ir.Value | None:
    """Casts an element of a constant i64 table to index: reads an i32 copy of the table where its numbers fit."""
    element = s.scalars.resolve(s.args(op)[0])
    type_ = element.value.type
    if not isinstance(type_, ir.RankedTensorType) or not isinstance(op.results[0].type, ir.IndexType):
        return None
    narrow = ir.IntegerType.get_signless(_NARROW, op.context)
    if element_of(type_) != ir.IntegerType.get_signless(64, op.context):
        return None
    known = _table_range(s, element.value)
    if known is None or not _holds(narrow, known):
        return None
    table = _twin(s, element.value, narrow)
    return s.build("arith.index_cast", op.results[0].type, [s.read(ScalarRef(table, element.index))], op)


def _table_range(s: RewriteScope, value: ir.Value) -> Range | None:
    """Returns the range of a constant integer tensor's elements, cached."""
    known = s.scalars.intervals
    if value not in known:
        defining = producer(value)
        x = array_of(defining.attributes["value"]) if defining is not None and defining.name == "arith.constant" else None
        fits = x is not None and x.size > 0 and np.issubdtype(x.dtype, np.integer)
        known[value] = (int(x.min()), int(x.max())) if x is not None and fits else None
    return known[value]


def _twin(s: RewriteScope, value: ir.Value, element: ir.Type) -> ir.Value:
    """Returns a copy of a constant tensor with another element type, created once, next to it."""
    if value not in s.scalars.twins:
        definition = producer(value)
        assert definition is not None
        x = array_of(definition.attributes["value"])
        assert x is not None
        narrow = attribute_of(x.astype(np.int32), element, tuple(x.shape))
        s.scalars.twins[value] = constant(narrow, ir.InsertionPoint(definition), definition.location)
    return s.scalars.twins[value]


def _holds(type_: ir.Type, x: Range) -> bool:
    """Returns whether an integer type holds all numbers of a range, so that none wrapped."""
    return hull(x, _all(type_)) == _all(type_)


def _all(type_: ir.Type) -> Range:
    bits = type_.width if isinstance(type_, ir.IntegerType) else 64
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _unchanged(x: Range) -> Range:
    return x


_ARITHMETIC: dict[str, Callable[..., Range]] = {
    **SIGNED,
    "arith.index_cast": _unchanged,
    "arith.extsi": _unchanged,
    "arith.trunci": _unchanged,
    "arith.select": hull,
    "arith.shrsi": lambda x, y: (x[0] >> y[0], x[1] >> y[0]) if y[0] == y[1] and 0 <= y[0] < 64 else UNKNOWN,
    "arith.floordivsi": lambda x, y: (x[0] // y[0], x[1] // y[0]) if y[0] == y[1] > 0 else UNKNOWN,
}
