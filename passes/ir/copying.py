"""Clones ops with remapped operands, and lists the values that an op and its regions read."""

from collections.abc import Iterable

from torch_mlir import ir

from .reading import nested


def copy_ops(ops: Iterable[ir.Operation], values: dict[ir.Value, ir.Value]) -> None:
    """Clones ops at the current insertion point, as C++ code does with an IRMapping.

    values  maps old operands to new ones; gets the results of the clones
    """

    for op in ops:
        copy = op.operation.clone()
        for inner in nested(copy.operation):
            for i, v in enumerate(inner.operands):
                if v in values:
                    inner.operands[i] = values[v]
        values.update(zip(op.operation.results, copy.results, strict=True))


def read_by(op: ir.Operation) -> list[ir.Value]:
    """Returns the values that an op and the ops in its regions use as operands, with repeats."""
    return [v for inner in nested(op) for v in inner.operands]
