"""Clones ops with remapped operands, and lists the values that an op and its regions read."""

from collections.abc import Iterable

from torch_mlir import ir


def copy_ops(ops: Iterable[ir.Operation], values: dict[ir.Value, ir.Value]) -> None:
    """Clones ops at the current insertion point, as C++ code does with an IRMapping.

    values  maps old operands to new ones; gets the results of the clones
    """

    def renamed(op: ir.Operation) -> ir.WalkResult:
        for i, v in enumerate(op.operands):
            if v in values:
                op.operands[i] = values[v]
        return ir.WalkResult.ADVANCE

    for op in ops:
        copy = op.operation.clone()
        copy.walk(renamed)
        values.update(zip(op.operation.results, copy.results, strict=True))


def read_by(op: ir.Operation) -> list[ir.Value]:
    """Returns the values that an op and the ops in its regions use as operands, with repeats."""
    found: list[ir.Value] = []

    def look(inner: ir.Operation) -> ir.WalkResult:
        found.extend(inner.operands)
        return ir.WalkResult.ADVANCE

    op.walk(look)
    return found
