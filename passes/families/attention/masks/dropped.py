"""Removes what Lamina's kernels do not need: broadcasts of masks over heads and queries, and ops that compute unread masks."""

from torch_mlir import ir

from lamina.core.walks import operands_first
from lamina.dialects.graph import CALLS

from ....ir.extern_calls import is_external
from ....ir.generics import empty
from ....ir.reading import producer, shape_of, terminator
from ....ir.rewriting import is_unused
from ....ir.sizes import tensor_type
from ....ir.views import is_view, walked_dims


def without_broadcast(mask: ir.Value) -> ir.Value:
    """Returns a mask without the final broadcast of its group, with size 1 where it repeats itself. Creates a group for it."""
    group = producer(mask)
    inner = _yielded(group) if group is not None and group.name == "graph.group" else None
    if group is None or inner is None or inner.name != "linalg.generic" or not is_view(inner):
        return mask
    shape = [n if d is not None else 1 for n, d in zip(shape_of(mask), walked_dims(inner), strict=True)]
    type_ = tensor_type(shape, ir.RankedTensorType(mask.type).element_type)
    narrow = group.clone()
    narrow.attributes["sym_name"] = ir.StringAttr.get(f"{ir.StringAttr(group.attributes['sym_name']).value}_mask")
    copied = _yielded(narrow)
    assert copied is not None
    with ir.InsertionPoint(copied):
        copied.operands[1] = empty(type_)
    copied.results[0].set_type(type_)
    narrow.results[0].set_type(type_)
    return narrow.results[0]


def defining_ops(value: ir.Value) -> tuple[ir.Operation, ...]:
    """Returns the ops of @main that make a value, in order; () if it depends on an argument or on a call."""
    visited = dict.fromkeys(map(producer, operands_first([value], lambda v: () if is_external(v) else v.owner.operands)))
    ops = tuple(op for op in visited if op is not None and op.name not in CALLS)
    return ops if len(ops) == len(visited) else ()


def erase_unused(op: ir.Operation | None) -> None:
    """Erases a group or view of @main that has no users, and then those of its producers that have none left."""
    unread = {} if op is None else {op.results[0]: op}
    while unread:
        _, last = unread.popitem()
        if not is_unused(last) or not (last.name == "graph.group" or is_view(last)):
            continue
        unread.update({defining.results[0]: defining for defining in map(producer, last.operands) if defining is not None})
        last.erase()


def _yielded(group: ir.Operation) -> ir.Operation | None:
    """Returns the op in a group that makes its result; None if it has several."""
    end = terminator(group.regions[0].blocks[0])
    return producer(end.operands[0]) if len(end.operands) == 1 else None
