"""The ops of a function, by what they are."""

from torch_mlir import ir


def by_name(function: ir.Operation) -> dict[str, list[ir.Operation]]:
    """Every op below `function`, in one walk: callbacks from MLIR cost more than the dictionary."""
    found: dict[str, list[ir.Operation]] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        found.setdefault(op.name, []).append(op)
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    return found
