"""Finds calls in a module, and reads what surrounds one: the group that follows it, the memory of its operands."""

from torch_mlir import ir

from ..ir.copying import copy_ops
from ..ir.extern_calls import memory_strides
from ..ir.reading import producer
from .choice import CHOICE


def calls(module: ir.Module) -> list[ir.Operation]:
    """Returns the graph.extern ops of a module."""
    return _ops(module, "graph.extern")


def kernels(module: ir.Module) -> list[ir.Operation]:
    """Returns the graph.kernel ops of a module."""
    return _ops(module, "graph.kernel")


def _ops(module: ir.Module, name: str) -> list[ir.Operation]:
    functions = [f.operation for f in module.body.operations if f.operation.name == "func.func" and f.operation.regions[0].blocks]
    return [o.operation for f in functions for o in f.regions[0].blocks[0].operations if o.operation.name == name]


def reader(op: ir.Operation) -> ir.Operation | None:
    """Returns the group that is the only user of a call's result, unless it has a schedule of its own; else None."""
    users = {use.owner for use in op.results[0].uses}
    if len(users) != 1:
        return None
    user = next(iter(users)).operation
    return user if user.name == "graph.group" and CHOICE not in user.attributes else None


def copy_body(group: ir.Operation, values: dict[ir.Value, ir.Value]) -> list[ir.Value]:
    """Clones a group's ops at the insertion point, on `values` for its operands; returns its results."""
    inner = group.regions[0].blocks[0]
    *ops, end = inner.operations
    made = {a: values[v] for a, v in zip(inner.arguments, group.operands, strict=True)}
    copy_ops(ops, made)
    return [made[v] for v in end.operands]


def strides_of(v: ir.Value) -> tuple[int, ...]:
    """Returns the strides of a value of @main, in elements, as far as they are known before memory is planned."""
    op = producer(v)
    if op is not None and op.name == "linalg.transpose":
        source = strides_of(op.operands[0])
        return tuple(source[d] for d in ir.DenseI64ArrayAttr(op.attributes["permutation"]))
    return memory_strides(v)
