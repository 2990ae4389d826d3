"""Groups the ops of a function by op name."""

from torch_mlir import ir


def by_name(function: ir.Operation) -> dict[str, list[ir.Operation]]:
    """Returns all ops nested in `function`, by op name, from one walk: callbacks from MLIR cost more than the dictionary."""
    found: dict[str, list[ir.Operation]] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        found.setdefault(op.name, []).append(op)
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    return found
