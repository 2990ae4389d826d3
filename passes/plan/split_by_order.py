"""Splits kernels whose users want results in different orders of dimensions, so that no loop order suits all of them."""

from collections.abc import Iterable, Sequence

from torch_mlir import ir

from lamina.core.sizes import SizeLike, at_most
from lamina.core.walks import reachable

from ..families.choice import CHOICE
from ..ir.affine import order_of
from ..ir.extern_calls import group
from ..ir.reading import SCAN, SCATTER, SORT, bytes_of, name_of, ops_in, producer, reduced_loops, shape_of, terminator
from ..ir.rewriting import copy_ops, read_by
from ..space.direct_convolution import WINDOW
from .layout_preferences import Wants


def split_by_order(ops: Sequence[ir.Operation], wants: Wants) -> list[ir.Operation]:
    """Returns the ops with each such kernel split into one per innermost dimension.

    Each reads the operands again, which costs less than writing one result across its memory. Where several parts would reduce
    something, they stay one: its smaller results lose what their users wish, and are copied for them.
    """
    kernels: list[ir.Operation] = []
    for op in ops:
        parts = _parts(op, wants) if op.name == "graph.group" and len(op.results) > 1 else []
        if len(parts) < 2:
            kernels.append(op)
        elif sum(not _is_pointwise(op, part) for part in parts) < 2:
            kernels += [_part(op, part, wants) for part in parts]
        else:
            for value in (v for part in parts[1:] for v in part):
                wants.drop(value)
            kernels.append(op)
    return kernels


def _parts(op: ir.Operation, wants: Wants) -> list[list[ir.Value]]:
    """Returns the results of a kernel by the dimension that is to be innermost in their memory, most bytes first. What nobody wants
    in particular is with the first, as are results of another shape, where dimensions of one element do not count."""
    if CHOICE in op.attributes or WINDOW in op.attributes:
        return []
    largest = _shape(max(op.results, key=bytes_of))
    parts: dict[int, list[ir.Value]] = {}
    rest: list[ir.Value] = []
    for value in op.results:
        if _shape(value) == largest and wants.has(value):
            parts.setdefault(_innermost(value, wants), []).append(value)
        else:
            rest.append(value)
    ordered = sorted(parts.values(), key=lambda part: -sum(map(bytes_of, part)))
    return [[*ordered[0], *rest], *ordered[1:]] if ordered else []


def _shape(value: ir.Value) -> list[SizeLike]:
    """Returns the shape of a value without dimensions of one element."""
    return [n for n in shape_of(value) if not at_most(n, 1)]


def _innermost(value: ir.Value, wants: Wants) -> int:
    """Returns which of the dimensions in `_shape` is innermost in the memory wanted for a value; -1 if there is none."""
    kept = [d for d, n in enumerate(shape_of(value)) if not at_most(n, 1)]
    order = [d for d in order_of(wants.layout(value).strides) if d in kept]
    return kept.index(order[-1]) if order else -1


def _is_pointwise(op: ir.Operation, results: Sequence[ir.Value]) -> bool:
    """Returns whether a kernel neither reduces, scans nor scatters for these results."""
    inner = _computing(op, results)
    return not any(o.name in (SCAN, SORT, SCATTER) or (o.name == "linalg.generic" and any(reduced_loops(o))) for o in inner)


def _computing(op: ir.Operation, results: Sequence[ir.Value]) -> list[ir.Operation]:
    """Returns the ops of a kernel's body that these results are computed by, in order."""
    *body, end = ops_in(op.regions[0].blocks[0])
    needed = {o for v in results for o in _producers(end.operands[ir.OpResult(v).result_number])}
    return [o for o in body if o in needed]


def _part(op: ir.Operation, results: Sequence[ir.Value], wants: Wants) -> ir.Operation:
    """Emits the kernel that computes these results of `op` alone, and hands their users over to it."""
    block = op.regions[0].blocks[0]
    numbers = [ir.OpResult(v).result_number for v in results]
    yields = [terminator(block).operands[i] for i in numbers]
    ops = _computing(op, results)
    read = {v for o in ops for v in read_by(o)} | set(yields)
    read_operands = [(v, argument) for v, argument in zip(op.operands, block.arguments, strict=True) if argument in read]

    def fill(*arguments: ir.Value) -> list[ir.Value]:
        """Copies the ops of this part."""
        values = dict(zip((argument for _, argument in read_operands), arguments, strict=True))
        copy_ops(ops, values)
        return [values[v] for v in yields]

    name = "_".join([name_of(op), *map(str, numbers)])
    with op.location, ir.InsertionPoint(op):
        part = group(name, [v for v, _ in read_operands], [v.type for v in results], fill)
    for key in op.attributes:
        if key not in part.attributes:
            part.attributes[key] = op.attributes[key]
    for old, new in zip(results, part.results, strict=True):
        wants.move(old, new)
        old.replace_all_uses_with(new)
    return part


def _producers(value: ir.Value) -> Iterable[ir.Operation]:
    """Returns the ops of a kernel's body that a value is computed by."""
    first = producer(value)
    if first is None:
        return ()
    return reachable([first], lambda o: [m for m in map(producer, read_by(o)) if m is not None and m.parent == first.parent])
