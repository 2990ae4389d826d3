"""Finds the order of dimensions in memory of values, or of the values that they are computed from element by element."""

from collections.abc import Iterator, Sequence

from torch_mlir import ir

from lamina.core.sizes import typical
from lamina.core.walks import reachable

from ..ir.affine import in_order, row_major
from ..ir.extern_calls import is_external, memory_strides
from ..ir.reading import identity_map, producer, shape_of
from ..ir.views import SINGLE_VIEWS
from .mixed_orders import orders_of
from .orders import PLACES, Read, strides_through_views, tensors


class MemoryOrder:
    """The orders in memory of a function's values.

    stored  values to store in another order before they are reduced, with the dimension that is innermost there (see orders_of)
    """

    def __init__(self, ops: Sequence[ir.Operation], read: Read) -> None:
        """ops: of the function, in program order."""
        self._read = read
        self._operands_alike: dict[ir.Value, list[ir.Value]] = {}
        orders = orders_of(ops, read)
        self.stored, self._innermost = orders.stored, orders.innermost

    def sources(self, v: ir.Value) -> Iterator[ir.Value]:
        """Yields the values that `v` is computed from element by element, up to those that are not computed in this way."""
        return (s for s in reachable([v], lambda x: reversed(self._elementwise_operands(x))) if not self._elementwise_operands(s))

    def _elementwise_operands(self, v: ir.Value) -> list[ir.Value]:
        """Returns the operands of a value's op that are read at each of its elements' own place; none but of an elementwise op."""
        if (known := self._operands_alike.get(v)) is None:
            op, known = producer(v), []
            g = self._read(op) if op is not None and op.name == "linalg.generic" else None
            if op is not None and g is not None and not any(g.reduced):
                shape = shape_of(v)
                known = [o for o, m in g.reads if m == identity_map(len(shape)) and shape_of(o) == shape]
            self._operands_alike[v] = known
        return known

    def innermost(self, v: ir.Value) -> int:
        """Returns the dimension that is contiguous in memory in the first elementwise source of a value that is not broadcast
        along a dimension."""
        if (known := self._innermost.get(v)) is not None:
            return known
        return next(reversed(self.inwards(v)), len(shape_of(v)) - 1)

    def inwards(self, v: ir.Value) -> list[int]:
        """Returns the dimensions of more than one element in the order in which they lie in memory, the outermost first."""
        shape, strides = shape_of(v), self._strides(v) or row_major(shape_of(v))
        return sorted((d for d, n in enumerate(shape) if typical(n) > 1), key=lambda d: (-typical(strides[d]), d))

    def _strides(self, v: ir.Value) -> tuple[int, ...] | None:
        """Returns the strides of the first elementwise source of `v` that is not broadcast along a dimension; None if no source is
        in memory."""
        shape = shape_of(v)
        strides: tuple[int, ...] | None
        for source in self.sources(v):
            if is_external(source):
                strides = memory_strides(source)
            elif source.owner.name in SINGLE_VIEWS:
                strides = strides_through_views(source, self._strides)
            elif source.owner.name in PLACES:
                parts = [self.inwards(v) for v in tensors(source.owner.operands) if len(shape_of(v)) == len(shape)]
                order = next((order for order in parts if order != sorted(order)), [])
                strides = in_order(shape, (*(d for d in range(len(shape)) if d not in order), *order))
            else:
                inner = self._innermost.get(source)
                strides = (
                    row_major(shape) if inner is None else in_order(shape, (*(d for d in range(len(shape)) if d != inner), inner))
                )
            if strides is not None and all(s for s, n in zip(strides, shape, strict=True) if typical(n) > 1):
                return strides
        return None
