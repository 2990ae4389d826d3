"""Declares and verifies ops with any number of operands of different types.

`dialects.ext` declares ops through IRDL, whose verifier wants every operand of a variadic group to have the same type, so
an op that takes buffers of several shapes cannot be declared there. The dialects graph and plan are therefore known to
Lamina alone: the context accepts their unregistered ops, and `verify` checks what a declaration would.
"""

from collections.abc import Iterator
from typing import ClassVar

from torch_mlir import ir


class Op:
    """Declaration of an op: its name, required attributes, and numbers of operands and results (None: any number)."""

    OPERATION_NAME: ClassVar[str]
    ATTRIBUTES: ClassVar[dict[str, type[ir.Attribute]]] = {}
    OPERANDS: ClassVar[int | None] = None
    RESULTS: ClassVar[int | None] = None
    REGIONS: ClassVar[int] = 0

    @staticmethod
    def faults(op: ir.Operation) -> Iterator[str]:
        """Yields faults that the declaration cannot express. Called only for ops that match it."""
        yield from ()


def ops_below(module: ir.Operation) -> list[ir.Operation]:
    """Returns all ops below `module`, in textual order."""
    found: list[ir.Operation] = []
    advance = ir.WalkResult.ADVANCE

    def visit(op: ir.Operation) -> ir.WalkResult:
        """Collects the op."""
        found.append(op)
        return advance

    module.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found[1:]


def verify(module: ir.Operation, known: dict[str, type[Op]], namespaces: tuple[str, ...]) -> list[tuple[ir.Operation, str]]:
    """Verifies the ops below `module` whose names begin with one of `namespaces` against the declarations `known`. Returns pairs of
    op and error message."""
    wrong: list[tuple[ir.Operation, str]] = []
    for op in ops_below(module):
        if not op.name.startswith(namespaces):
            continue
        declared = known.get(op.name)
        if declared is None:
            near = ", ".join(sorted(n for n in known if n.split(".")[0] == op.name.split(".")[0]))
            wrong.append((op, f"unknown op {op.name}: expected one of {near}"))
            continue
        before = len(wrong)
        for what, expected, given in (
            ("operands", declared.OPERANDS, len(op.operands)),
            ("results", declared.RESULTS, len(op.results)),
            ("regions", declared.REGIONS, len(op.regions)),
        ):
            if expected is not None and expected != given:
                wrong.append((op, f"{op.name} expects {expected} {what}, but has {given}"))
        for name, kind in declared.ATTRIBUTES.items():
            if name not in op.attributes:
                wrong.append((op, f"{op.name} expects the attribute {name}"))
            elif not isinstance(op.attributes[name], kind):
                wrong.append((op, f"{op.name} expects {name} to be a {kind.__name__}, but it is {op.attributes[name]}"))
        if len(wrong) == before:
            wrong += [(op, f"{op.name} {fault}") for fault in declared.faults(op)]
    return wrong
