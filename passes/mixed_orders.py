"""Values that are computed, element by element, of tensors whose dimensions lie in different orders in memory, and then reduced.

A kernel that only maps such tensors transposes blocks of them on the way (see squares); one that reduces them as well would read
one of them with gaps, a whole sector for each element. So what lies in one of these orders is stored once in the other, and reduced
from there.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from lamina.core.layout import Layout

from .plan_views import view_layout
from .reading import Generic, producer, shape_of
from .trace import VIEWS

LARGE = 1 << 16  # elements; less stays in caches

Read = Callable[[ir.Operation], Generic | None]
Strides = Callable[[ir.Value], tuple[int, ...]]


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
    where that is no memory yet, in its narrowest type, else the result.

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
        for v, dim in _wanted(op).items():
            if order(v) not in (None, dim) and producer(v) is not None and _mapped(v.owner, read):
                stored[v] = innermost[v] = dim
        mapped = _mapped(op, read)
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
            chain = _chain(v, read) if shape_of(v) == shape_of(result) else []
            chain = chain or [result]
            if any(x in reduced for x in chain):
                stored[min(chain, key=width)] = best
                innermost.update(dict.fromkeys(chain, best))
    return Orders(innermost, stored)


def _wanted(op: ir.Operation) -> dict[ir.Value, int]:
    """Return the images that a library's call takes with their channels last, as it gives an image."""
    if op.name != "graph.extern":
        return {}
    strides = [s for s in op.attributes["strides"] if not isinstance(s, ir.TypeAttr)]
    images = [(shape_of(v), list(s)) for v, s in zip(op.results, strides, strict=True) if len(list(s)) == 4]
    if not any(innermost_of(shape, given) == 1 for shape, given in images if shape[2] * shape[3] > 1):
        return {}
    return dict.fromkeys((v for v in op.operands if len(shape_of(v)) == 4 and math.prod(shape_of(v)) >= LARGE), 1)


def is_given(v: ir.Value) -> bool:
    """Return whether a value is an argument, or an external call's result."""
    op = producer(v)
    return op is None or op.name == "graph.extern"


def last_of(v: ir.Value) -> int:
    """Return the last dimension of more than one element."""
    return max((i for i, n in enumerate(shape_of(v)) if n > 1), default=0)


def viewed(v: ir.Value) -> ir.Value:
    """Return the value that views of it make this one."""
    while (op := producer(v)) is not None and op.name in VIEWS:
        v = op.operands[0]
    return v


def width(v: ir.Value) -> int:
    """Return the bits of an element, those of a truth value in memory."""
    element = ir.RankedTensorType(v.type).element_type
    bits = getattr(element, "width", 64)
    return max(8, int(bits))


def strides_through_views(v: ir.Value, strides_of: Callable[[ir.Value], tuple[int, ...] | None]) -> tuple[int, ...] | None:
    """Return the strides of a value as views show them; None where those of what they show are not known, or show no strides."""
    views: list[ir.Operation] = []
    while (op := producer(v)) is not None and op.name in VIEWS:
        views.append(op)
        v = op.operands[0]
    strides = strides_of(v)
    layout: Layout | None = Layout.of(shape_of(v), strides) if strides is not None else None
    for view in reversed(views):
        layout = view_layout(view, layout) if layout is not None else None
    return None if layout is None else tuple(s for s in layout.strides if isinstance(s, int))


def with_innermost(shape: Sequence[int], dim: int | None) -> tuple[int, ...]:
    """Return strides without gaps, row-major but for one dimension that is innermost."""
    strides, step = [0] * len(shape), 1
    for d in sorted(range(len(shape)), key=lambda d: (d == dim, d), reverse=True):
        strides[d], step = step, step * shape[d]
    return tuple(strides)


def _chain(v: ir.Value, read: Read) -> list[ir.Value]:
    """Return `v`, and what it is mapped from as long as that is one tensor of its shape, of what is computed."""
    found: list[ir.Value] = []
    while (op := producer(v)) is not None and (mapped := _mapped(op, read)):
        found.append(v)
        source = next(iter(mapped))
        if len(mapped) > 1 or shape_of(source) != shape_of(v):
            break
        v = source
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


def _mapped(op: ir.Operation, read: Read) -> dict[ir.Value, list[int]] | None:
    """Return the operands that an op maps element by element, and for each dimension of them that of the result; None for an op of
    another kind."""
    g = read(op) if op.name == "linalg.generic" and len(op.results) == 1 else None
    if g is None or any(g.reduced) or g.maps[g.inputs] != tuple((0, ((i, 1),)) for i in range(len(g.extents))):
        return None
    pairs = zip(op.operands, g.maps[: g.inputs], strict=False)
    whole = {v: m for v, m in pairs if math.prod(shape_of(v)) == math.prod(g.extents)}
    plain = {
        v: m for v, m in whole.items() if all(not terms or (c == 0 and len(terms) == 1 and terms[0][1] == 1) for c, terms in m)
    }
    return {v: [terms[0][0] if terms else 0 for _, terms in m] for v, m in plain.items()}


def _tensors(values: Iterable[ir.Value]) -> list[ir.Value]:
    return [v for v in values if isinstance(v.type, ir.RankedTensorType)]


def innermost_of(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """Return the dimension along which neighbours in memory lie; None where there is but one, or elements are repeated."""
    sides = [(s, -i) for i, (s, n) in enumerate(zip(strides, shape, strict=True)) if n > 1]
    return -min(sides)[1] if len(sides) > 1 and all(s for s, _ in sides) else None
