"""Ops of a block, copied."""

from collections.abc import Iterable

from torch_mlir import ir


def copy_ops(ops: Iterable[ir.Operation], values: dict[ir.Value, ir.Value]) -> None:
    """Copies ops to the current place. values: what stands for values that they read, and then for those that they make, too."""

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
    """What an operation reads, and what its regions do."""
    found: list[ir.Value] = []

    def look(inner: ir.Operation) -> ir.WalkResult:
        found.extend(inner.operands)
        return ir.WalkResult.ADVANCE

    op.walk(look)
    return found
