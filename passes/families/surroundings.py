"""Finds calls in a module, and reads what surrounds one: the group that follows it, the memory of its operands."""

import re
from collections.abc import Callable, Sequence

from torch_mlir import ir

from ..ir.extern_calls import group, memory_strides
from ..ir.locations import fused, model_ops, op_word
from ..ir.reading import name_of, ops_in, producer
from ..ir.rewriting import copy_ops, function_bodies
from ..space.space import Space, find_space
from .choice import CHOICE

_NUMBER = re.compile(r"_\d+$")  # at the end of names: distinguishes groups that compute the same

ValueMap = dict[ir.Value, ir.Value]
"""New values, by those that they stand for."""


def calls(module: ir.Module, *, symbolic: bool = False) -> list[ir.Operation]:
    """Returns the graph.extern ops of a module; those with symbolic sizes only where asked for."""
    return [op for op in _ops(module, "graph.extern") if symbolic or not has_symbolic_sizes(op)]


def has_symbolic_sizes(op: ir.Operation) -> bool:
    """Returns whether an op takes or yields a tensor of symbolic sizes."""
    types = (v.type for v in (*op.operands, *op.results))
    return any(isinstance(type_, ir.RankedTensorType) and not type_.has_static_shape for type_ in types)


def kernels(module: ir.Module) -> list[ir.Operation]:
    """Returns the graph.kernel ops of a module."""
    return _ops(module, "graph.kernel")


def _ops(module: ir.Module, name: str) -> list[ir.Operation]:
    return [op for block in function_bodies(module) for op in ops_in(block, name)]


def only_reader(op: ir.Operation) -> ir.Operation | None:
    """Returns the group that is the only user of a call's result, unless it has a schedule of its own; else None."""
    users = {use.owner for use in op.results[0].uses}
    if len(users) != 1:
        return None
    user = next(iter(users)).operation
    return user if user.name == "graph.group" and CHOICE not in user.attributes else None


def plain_name(op: ir.Operation) -> str:
    """Returns the name of a group or kernel without the number at its end."""
    return _NUMBER.sub("", name_of(op))


def copy_body(group: ir.Operation, values: ValueMap) -> list[ir.Value]:
    """Clones a group's ops at the insertion point, on `values` for its operands; returns its results."""
    inner = group.regions[0].blocks[0]
    *ops, end = inner.operations
    copies = {a: values[v] for a, v in zip(inner.arguments, group.operands, strict=True)}
    copy_ops(ops, copies)
    return [copies[v] for v in end.operands]


def group_before(
    like: ir.Operation,
    ops: Sequence[ir.Operation],
    operands: ValueMap,
    types: Sequence[ir.Type],
    fill: Callable[[ValueMap], list[ir.Value]],
    name: str = "sums",
) -> ir.Operation:
    """Creates a group before `like`, named after `ops`, in whose place it computes.

    operands  the group's operands, by the values that they stand for
    types     of its results
    fill      emits the body on the values that stand for those of `operands`, and returns the results
    name      of the group where the ops have no names of a model's
    """
    location = fused([op.location for op in ops] or [like.location])
    words = list(dict.fromkeys(op_word(name) for name in model_ops(location))) if ops else []
    with location, ir.InsertionPoint(like):
        label = "_".join(words[:5]) or name
        return group(label, list(operands.values()), types, lambda *inner: fill(dict(zip(operands, inner, strict=True))))


def replace_by(results: Sequence[ir.Value], group: ir.Operation | None, ops: Sequence[ir.Operation]) -> None:
    """Replaces the results of a group, or of calls without one, and erases group and calls."""
    for old, new in zip([v for op in ([group] if group else ops) for v in op.results], results, strict=True):
        old.replace_all_uses_with(new)
    for op in ([group] if group else []) + list(ops):
        op.erase()


def strides_of(v: ir.Value) -> tuple[int, ...]:
    """Returns the strides of a value of @main, in elements, as far as they are known before memory is planned."""
    op = producer(v)
    if op is not None and op.name == "linalg.transpose":
        source = strides_of(op.operands[0])
        return tuple(source[d] for d in ir.DenseI64ArrayAttr(op.attributes["permutation"]))
    return memory_strides(v)


def space_of(group: ir.Operation, strides: Callable[[ir.Value], tuple[int, ...]] = strides_of) -> Space:
    """Returns the iteration space of a group. Raises Untraceable if no kernel of Lamina can compute it.

    strides  of its operands and results in memory
    """
    block = group.regions[0].blocks[0]
    given = {a: strides(v) for a, v in zip(block.arguments, group.operands, strict=True)}
    return find_space(block, given, [strides(v) for v in group.results], divide=True)
