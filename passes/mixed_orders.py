"""Values that are computed, element by element, of tensors whose dimensions lie in different orders in memory, and then reduced.

A kernel that only maps such tensors transposes blocks of them on the way (see squares); one that reduces them as well would read
one of them with gaps, a whole sector for each element. So the mapped value is stored, once, in one of these orders, and reduced
from there.
"""

import math
from collections.abc import Callable, Iterable, Sequence

from torch_mlir import ir

from .reading import Generic, producer, shape_of
from .trace import VIEWS

LARGE = 1 << 16  # elements; less stays in caches

Read = Callable[[ir.Operation], Generic | None]


def mixed_and_reduced(ops: Sequence[ir.Operation], strides_of: Callable[[ir.Value], tuple[int, ...]], read: Read) -> set[ir.Value]:
    """Return the values to store. `ops`: of a function, in order; `strides_of`: of arguments and results of external calls."""
    reduced = _reduced(ops, read)
    innermost: dict[ir.Value, int | None] = {}
    found: set[ir.Value] = set()

    def order(v: ir.Value) -> int | None:
        if v not in innermost:
            op = producer(v)
            given = op is None or op.name == "graph.extern"
            innermost[v] = _innermost(shape_of(v), strides_of(v)) if given else None
        return innermost[v]

    for op in ops:
        if op.name == "linalg.transpose":
            source = order(op.operands[0])
            permutation = list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))
            innermost[op.results[0]] = None if source is None else permutation.index(source)
            continue
        mapped = _mapped(op, read)
        if mapped is None:
            continue
        orders = {i for v in mapped if (i := order(v)) is not None}
        result = op.results[0]
        if len(orders) > 1 and result in reduced and math.prod(shape_of(result)) >= LARGE:
            found.add(result)
            orders = set()
        innermost[result] = min(orders, default=None)
    return found


def _reduced(ops: Sequence[ir.Operation], read: Read) -> set[ir.Value]:
    """Return the values that a reduction reads, and those that these are computed of element by element."""
    found: set[ir.Value] = set()
    for op in reversed(ops):
        g = read(op) if op.name == "linalg.generic" else None
        if g is not None and any(g.reduced):
            found.update(_tensors(op.operands))
        elif any(v in found for v in op.results):
            found.update(_mapped(op, read) or (_tensors(op.operands)[:1] if op.name in VIEWS else ()))
    return found


def _mapped(op: ir.Operation, read: Read) -> list[ir.Value] | None:
    """Return the operands that an op maps element by element; None for an op of another kind."""
    g = read(op) if op.name == "linalg.generic" and len(op.results) == 1 else None
    if g is None or any(g.reduced):
        return None
    whole = tuple((0, ((i, 1),)) for i in range(len(g.extents)))
    return [
        v for v, m in zip(op.operands, g.maps[: g.inputs], strict=False) if m == whole and tuple(shape_of(v)) == tuple(g.extents)
    ]


def _tensors(values: Iterable[ir.Value]) -> list[ir.Value]:
    return [v for v in values if isinstance(v.type, ir.RankedTensorType)]


def _innermost(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """Return the dimension along which neighbours in memory lie; None where there is but one, or elements are repeated."""
    sides = [(s, -i) for i, (s, n) in enumerate(zip(strides, shape, strict=True)) if n > 1]
    return -min(sides)[1] if len(sides) > 1 and all(s for s, _ in sides) else None
